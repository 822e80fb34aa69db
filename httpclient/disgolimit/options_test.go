package disgolimit_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/disgoorg/disgo"
	"github.com/disgoorg/disgo/bot"
	"github.com/disgoorg/disgo/discord"
	"github.com/disgoorg/disgo/rest"
	"github.com/disgoorg/snowflake/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/disgolimit"
	"github.com/ratelight/ratelight/internal/librarytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOptionsMakeEveryOptionEffective(t *testing.T) {
	t.Parallel()
	librarytest.Run(t, "disgolimit", "README.md", func(transport *httpclient.Transport) librarytest.Library {
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

func TestABotSendsThroughTheTransport(t *testing.T) {
	t.Parallel()
	var asked []*http.Request
	client, err := disgo.New("MTIz.a.b",
		bot.WithRestClientConfigOpts(disgolimit.Options(sees(func(r *http.Request) { asked = append(asked, r) }))...))
	require.NoError(t, err)
	defer client.Close(t.Context())
	_, err = client.Rest.CreateMessage(1, discord.MessageCreate{Content: "hello"})
	assert.ErrorIs(t, err, errNotSent)
	require.Len(t, asked, 1)
	assert.Equal(t, "Bot MTIz.a.b", asked[0].Header.Get("Authorization"))
	assert.Contains(t, asked[0].UserAgent(), "DiscordBot")
}

var errNotSent = errors.New("not sent")

// sees is a function used as a transport: each request is passed to the function, and fails with an error.
type sees func(*http.Request)

func (f sees) RoundTrip(r *http.Request) (*http.Response, error) {
	f(r)
	if r.Body != nil {
		r.Body.Close()
	}
	return nil, errNotSent
}
