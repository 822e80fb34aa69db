package httpclient_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
)

func TestEveryRequestFailsWithOptionsThatExcludeEachOther(t *testing.T) {
	t.Parallel()
	manager := buckets.NewRESTBucketManager()
	require.NoError(t, manager.Start())
	defer manager.Close()
	for name, c := range map[string]struct {
		options []httpclient.Option
		want    []string
	}{
		"max rate limit and manager": {[]httpclient.Option{httpclient.WithMaxRateLimit(time.Second), httpclient.WithManager(manager)}, []string{"WithMaxRateLimit", "WithManager"}},
		"manager and buckets":        {[]httpclient.Option{httpclient.WithManager(manager), httpclient.WithBuckets(buckets.WithOrdered())}, []string{"WithBuckets", "WithManager"}},
		"max rate limit and limiter": {[]httpclient.Option{httpclient.WithMaxRateLimit(0), httpclient.WithLimiter(buckets.Unlimited{})}, []string{"WithMaxRateLimit", "WithLimiter"}},
		"buckets and limiter":        {[]httpclient.Option{httpclient.WithBuckets(nil), httpclient.WithLimiter(manager)}, []string{"WithBuckets", "WithLimiter"}},
		"manager and limiter":        {[]httpclient.Option{httpclient.WithLimiter(buckets.Unlimited{}), httpclient.WithManager(manager)}, []string{"WithManager", "WithLimiter"}},
		"server of no host":          {[]httpclient.Option{httpclient.WithServer(func(string) string { return "" })}, []string{"WithServer", "WithHosts", "WithAPI"}},
	} {
		t.Run(name, func(t *testing.T) {
			below := newScript(answer(http.StatusOK, "{}"))
			transport := httpclient.NewTransport(append(c.options, httpclient.WithBase(below))...)
			for _, r := range []*http.Request{newMessage(t), to(t, "https://example.com", newMessage(t))} {
				var bodies ledger
				r.Body = bodies.open(r.Body)
				_, err := transport.RoundTrip(r)
				require.ErrorIs(t, err, httpclient.ErrOptions)
				for _, option := range c.want {
					assert.ErrorContains(t, err, option)
				}
				assert.ErrorContains(t, err, "expected")
				bodies.assertClosed(t)
			}
			assert.Empty(t, below.requests())
			assert.NoError(t, transport.Close())
		})
	}
}

func TestOptionsThatAreNothingExcludeNoOthers(t *testing.T) {
	t.Parallel()
	manager := buckets.NewRESTBucketManager()
	require.NoError(t, manager.Start())
	defer manager.Close()
	for name, options := range map[string][]httpclient.Option{
		"manager":     {httpclient.WithMaxRateLimit(time.Second), httpclient.WithManager(nil), httpclient.WithLimiter(nil)},
		"nil manager": {httpclient.WithMaxRateLimit(time.Second), httpclient.WithLimiter((*buckets.RESTBucketManager)(nil))},
		"buckets":     {httpclient.WithBuckets(), httpclient.WithManager(manager), httpclient.WithLogger(nil)},
		"server":      {httpclient.WithServer(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			transport := newTransport(t, newScript(answer(http.StatusOK, "{}")), options...)
			assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
		})
	}
}
