package arikawalimit_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/diamondburned/arikawa/v3/api"
	"github.com/diamondburned/arikawa/v3/api/webhook"
	"github.com/diamondburned/arikawa/v3/discord"
	"github.com/diamondburned/arikawa/v3/state"
	"github.com/diamondburned/arikawa/v3/utils/httputil"
	"github.com/diamondburned/arikawa/v3/utils/sendpart"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/arikawalimit"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/librarytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newClient(transport http.RoundTripper) *api.Client {
	client := api.NewClient("Bot token")
	arikawalimit.Prepare(client, transport)
	return client
}

func TestPrepareMakesEveryOptionEffective(t *testing.T) {
	t.Parallel()
	librarytest.Run(t, "arikawalimit", "README.md", func(transport *httpclient.Transport) librarytest.Library {
		client := newClient(transport)
		return librarytest.Library{
			Send: func(ctx context.Context, channel uint64, content string) error {
				_, err := client.WithContext(ctx).SendMessage(discord.ChannelID(channel), content)
				return err
			},
			APIError: func(err error) (librarytest.APIError, bool) {
				e, ok := errors.AsType[*httputil.HTTPError](err)
				if !ok {
					return librarytest.APIError{}, false
				}
				return librarytest.APIError{Status: e.Status, Code: int(e.Code), Message: e.Message}, true
			},
		}
	})
}

// answers is a transport that answers without a body and records the requests.
type answers struct{ asked []*http.Request }

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a.asked = append(a.asked, r)
	if r.Body != nil {
		r.Body.Close()
	}
	return &http.Response{StatusCode: http.StatusNoContent, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

func TestRequestsSayWhoSendsThem(t *testing.T) {
	t.Parallel()
	by := new(answers)
	client := newClient(by)
	require.NoError(t, client.WithLocale("de").DeleteMessage(1, 2, ""))
	require.NoError(t, webhook.FromAPI(3, "secret", client).Execute(webhook.ExecuteData{Content: "hello"}))
	require.Len(t, by.asked, 2)
	for _, r := range by.asked {
		assert.Equal(t, "Bot token", r.Header.Get("Authorization"))
		assert.Equal(t, api.UserAgent, r.UserAgent())
	}
}

func TestABotSendsThroughTheTransport(t *testing.T) {
	t.Parallel()
	by := new(answers)
	s := state.New("Bot token")
	arikawalimit.Prepare(s.Client, by)
	_, err := s.WithContext(t.Context()).SendMessage(1, "hello")
	require.NoError(t, err)
	assert.Len(t, by.asked, 1)
}

// Another client has used up the channel's bucket, so a 429 is unavoidable. After the 429, an upload must be repeated
// if its body is kept in memory.
func TestALargeUploadSurvivesARefusalWhenItIsKept(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		options []httpclient.Option
		fails   bool
	}{
		"too large to be kept": {nil, true},
		"kept":                 {[]httpclient.Option{httpclient.WithBufferedBodies(4<<20, 64<<20)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server, err := discordsim.New(librarytest.Config())
				require.NoError(t, err)
				defer server.Close()
				used := discordsim.Request{Method: http.MethodPost, Path: "/channels/1/messages", Authorization: "Bot token"}
				require.Equal(t, 5, server.Consume(used, 5))
				transport := httpclient.NewTransport(append(test.options, httpclient.WithBase(server.RoundTripper()))...)
				defer transport.Close()
				_, err = newClient(transport).SendMessageComplex(1, api.SendMessageData{
					Files: []sendpart.File{{Name: "large.bin", Reader: bytes.NewReader(make([]byte, 2<<20))}},
				})
				if !test.fails {
					require.NoError(t, err)
					return
				}
				var e *httputil.HTTPError
				require.ErrorAs(t, err, &e)
				assert.Equal(t, http.StatusTooManyRequests, e.Status)
			})
		})
	}
}
