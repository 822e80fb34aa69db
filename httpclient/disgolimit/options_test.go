package disgolimit_test

import (
	"context"
	"errors"
	"testing"

	"github.com/disgoorg/disgo/discord"
	"github.com/disgoorg/disgo/rest"
	"github.com/disgoorg/snowflake/v2"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/disgolimit"
	"github.com/ratelight/ratelight/internal/librarytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOptionsMakeEveryOptionEffective(t *testing.T) {
	t.Parallel()
	librarytest.Run(t, func(transport *httpclient.Transport) librarytest.Library {
		client := rest.New(rest.NewClient("token", disgolimit.Options(transport)...))
		return librarytest.Library{
			Send: func(ctx context.Context, channel uint64, content string) error {
				_, err := client.CreateMessage(snowflake.ID(channel), discord.MessageCreate{Content: content}, rest.WithCtx(ctx))
				return err
			},
			APIError: func(err error) (librarytest.APIError, bool) {
				e, ok := errors.AsType[*rest.Error](err)
				if !ok {
					return librarytest.APIError{}, false
				}
				return librarytest.APIError{Status: e.Response.StatusCode, Code: int(e.Code), Message: e.Message}, true
			},
		}
	})
}
