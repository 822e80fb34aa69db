package main

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// arikawa writes its bodies while they are sent, so that they can be repeated only as far as they are kept.
func TestALargeUploadOfArikawaNeedsAsLargeAMaxReplay(t *testing.T) {
	t.Parallel()
	file := make([]byte, 2<<20)
	for _, test := range []struct {
		name    string
		options []httpclient.Option
		status  int
	}{
		{"too small", nil, http.StatusTooManyRequests},
		{"large enough", []httpclient.Option{httpclient.WithMaxBufferedBody(4 << 20)}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newTestDiscord(t, discordsim.Config{})
				bot := discordsim.Request{Method: http.MethodPost, Path: path, Authorization: "Bot " + token}
				require.Equal(t, 5, d.server.Consume(bot, 5))
				transport := httpclient.NewTransport(append(test.options, httpclient.WithBase(d))...)
				defer transport.Close()
				m, err := inArikawa{arikawaThrough(transport)}.Upload(channel, "large.bin", file)
				if test.status == 0 {
					require.NoError(t, err)
					assert.Equal(t, len(file), m.Size)
					return
				}
				e, ok := explain(err)
				require.True(t, ok, "%v", err)
				assert.Equal(t, test.status, e.Status)
			})
		})
	}
}
