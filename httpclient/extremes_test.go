package httpclient_test

import (
	"context"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/httpclient"
)

// With every option at every extreme a request whose first attempt fails ends, in time, with an answer or a reason.
func TestEveryOptionOfATransportWorksAtItsExtremes(t *testing.T) {
	t.Parallel()
	options := map[string]httpclient.Option{
		"no base": httpclient.WithBase(nil), "no limiter": httpclient.WithLimiter(nil), "no manager": httpclient.WithManager(nil),
		"no logger": httpclient.WithLogger(nil), "no hosts": httpclient.WithHosts(nil), "no server": httpclient.WithServer(nil),
		"no hooks": httpclient.WithHooks(httpclient.Hooks{}), "nothing": nil,
	}
	for _, d := range []time.Duration{math.MinInt64, -1, 0, 1, math.MaxInt64 - 1, math.MaxInt64} {
		options["max rate limit "+d.String()] = httpclient.WithMaxRateLimit(d)
		options["retry time "+d.String()] = httpclient.WithMaxRetryDuration(d)
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
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				below := newScript(fail(io.ErrUnexpectedEOF), refuse("user", "1"), answer(http.StatusOK, "done"))
				transport := httpclient.NewTransport(option, httpclient.WithBase(below))
				defer transport.Close()
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
		})
	}
}
