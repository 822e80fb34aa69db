package httpclient_test

import (
	"context"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
)

func TestEveryRequestFailsWithOptionsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	manager := newManager(t)
	for name, c := range map[string]struct {
		options []httpclient.Option
		want    []string
	}{
		"max rate limit and manager": {
			[]httpclient.Option{httpclient.WithMaxRateLimit(time.Second), httpclient.WithLimiter(manager)},
			[]string{"WithMaxRateLimit", "WithLimiter"},
		},
		"manager and buckets": {
			[]httpclient.Option{httpclient.WithLimiter(manager), httpclient.WithBuckets(buckets.WithOrdered())},
			[]string{"WithBuckets", "WithLimiter"},
		},
		"max rate limit and limiter": {
			[]httpclient.Option{httpclient.WithMaxRateLimit(0), httpclient.WithLimiter(buckets.Unlimited{})},
			[]string{"WithMaxRateLimit", "WithLimiter"},
		},
		"buckets and limiter": {
			[]httpclient.Option{httpclient.WithBuckets(nil), httpclient.WithLimiter(manager)},
			[]string{"WithBuckets", "WithLimiter"},
		},
		"a limit of nothing": {
			[]httpclient.Option{httpclient.WithBuckets(buckets.WithLimit(buckets.ForAll(), 0, time.Second))},
			[]string{"WithLimit(all requests 0 per 1s): a limit of 0: expected 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			below := newScript(answer(http.StatusOK, "{}"))
			transport := httpclient.NewTransport(append(c.options, httpclient.WithBase(below))...)
			for _, r := range []*http.Request{newMessage(t), to(t, "https://example.com", newMessage(t)), newMessage(t)} {
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
			assert.NoError(t, transport.Shutdown(t.Context()))
			assert.NoError(t, transport.Close())
		})
	}
}

func TestOptionsThatAreNothingExcludeNoOthers(t *testing.T) {
	t.Parallel()
	manager := newManager(t)
	for name, options := range map[string][]httpclient.Option{
		"manager":     {httpclient.WithMaxRateLimit(time.Second), httpclient.WithLimiter(nil)},
		"nil manager": {httpclient.WithMaxRateLimit(time.Second), httpclient.WithLimiter((*buckets.RESTBucketManager)(nil))},
		"buckets":     {httpclient.WithBuckets(), httpclient.WithLimiter(manager), httpclient.WithLogger(nil)},
		"API":         {httpclient.WithAPI(address(t, "https://discord.com/api"), "")},
	} {
		t.Run(name, func(t *testing.T) {
			transport := newTransport(t, newScript(answer(http.StatusOK, "{}")), options...)
			assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
		})
	}
}

// Every option has an extreme value, and the first attempt of the request fails. The request must end in time, with a
// response or an error that says why.
func TestEveryOptionOfATransportWorksAtItsExtremes(t *testing.T) {
	t.Parallel()
	options := map[string]httpclient.Option{
		"no base": httpclient.WithBase(nil), "no limiter": httpclient.WithLimiter(nil),
		"no logger": httpclient.WithLogger(nil), "no hosts": httpclient.WithHosts(nil),
		"no hooks": httpclient.WithHooks(httpclient.Hooks{}), "nothing": nil,
	}
	for _, d := range []time.Duration{math.MinInt64, -1, 0, 1, math.MaxInt64 - 1, math.MaxInt64} {
		options["max rate limit "+d.String()] = httpclient.WithMaxRateLimit(d)
		options["attempt timeout "+d.String()] = httpclient.WithAttemptTimeout(d)
		for _, other := range []time.Duration{math.MinInt64, 0, 1, math.MaxInt64} {
			options["backoff "+d.String()+" "+other.String()] = httpclient.WithBackoff(d, other)
		}
	}
	for _, n := range []int64{math.MinInt64, -1, 0, 1, 1 << 40, math.MaxInt64 - 1, math.MaxInt64} {
		options["max replay "+strconv.FormatInt(n, 10)] = httpclient.WithMaxBufferedBody(n)
		options["max buffered "+strconv.FormatInt(n, 10)] = httpclient.WithMaxBufferedTotal(n)
		options["retries "+strconv.FormatInt(n, 10)] = httpclient.WithRetries(int(n))
	}
	for name, option := range options {
		inBubble(t, name, func(t *testing.T) {
			below := newScript(fail(io.ErrUnexpectedEOF), refuse("user", "1"), answer(http.StatusOK, "done"))
			transport := newTransport(t, below, option)
			for range 2 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
				r := unreplayable(newRequest(t, http.MethodPut, messages, "hello").WithContext(ctx), strings.NewReader("hello"), -1)
				c := send(transport, r).wait()
				cancel()
				assert.Less(t, c.took, time.Hour)
				if c.err == nil {
					assert.Contains(t, []int{http.StatusOK, http.StatusTooManyRequests}, c.status)
				}
			}
			assertNothingHeld(t, transport)
		})
	}
}
