package httpclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// watcher is a limiter that grants all requests at once, and records its calls with their times.
type watcher struct {
	start time.Time
	told  []telling
}

type telling struct {
	what     string
	at       time.Duration
	class    ratelimits.Class
	wait     time.Duration
	has429   bool
	response ratelimits.Response
}

func (l *watcher) AcquireRequest(context.Context, *buckets.Request) (buckets.Lease, error) {
	return buckets.NewLease(l), nil
}

func (l *watcher) tell(what string, r ratelimits.Response) {
	l.told = append(l.told,
		telling{what, time.Since(l.start), r.Class, r.RetryAfter, r.Status == http.StatusTooManyRequests, r})
}

func (l *watcher) Refused(r ratelimits.Response)     { l.tell("refused", r) }
func (l *watcher) End(_ bool, r ratelimits.Response) { l.tell("ended", r) }

func TestA429IsToldToTheLimiterBeforeItsBodyHasCome(t *testing.T) {
	const precise = `{"retry_after":2.5,"global":false}`
	broken := errors.New("connection reset by peer")
	type story struct {
		delay   time.Duration
		content io.Reader
		life    time.Duration // time until the request's context ends
		ended   time.Duration
		wait    time.Duration
	}
	inBubbles(t, map[string]story{
		"at once": {0, strings.NewReader(precise), time.Minute, 0, 2500 * time.Millisecond},
		"late":    {3 * time.Second, strings.NewReader(precise), time.Minute, 3 * time.Second, 2500 * time.Millisecond},
		"never":   {time.Hour, strings.NewReader(precise), time.Minute, 5 * time.Second, 3 * time.Second},
		"broken off": {
			time.Second, io.MultiReader(strings.NewReader(precise[:9]), iotest.ErrReader(broken)), time.Minute, time.Second,
			3 * time.Second,
		},
		"broken off at once": {time.Second, iotest.ErrReader(broken), time.Minute, time.Second, 3 * time.Second},
		"after the deadline": {time.Hour, strings.NewReader(precise), 2 * time.Second, 2 * time.Second, 3 * time.Second},
	}, func(t *testing.T, c story) {
		refusal := answerWith(http.StatusTooManyRequests, func() io.ReadCloser { return stall(c.delay, c.content) },
			"X-RateLimit-Scope: shared", "Retry-After: 3")
		limiter := &watcher{start: time.Now()}
		transport := newTransport(t, newScript(refusal, answer(http.StatusOK, "")), httpclient.WithLimiter(limiter))
		ctx := within(t, c.life)
		sent := send(transport, newMessage(t).WithContext(ctx)).wait()
		if c.life < time.Minute {
			assert.ErrorIs(t, sent.err, context.DeadlineExceeded)
			assert.Equal(t, c.life, sent.took)
		} else {
			assertStatus(t, http.StatusOK, sent)
		}
		require.GreaterOrEqual(t, len(limiter.told), 2)
		first, last := limiter.told[0], limiter.told[1]
		assert.Equal(t, telling{"refused", 0, ratelimits.ClassShared, 3 * time.Second, true, first.response}, first)
		assert.Equal(t, telling{"ended", c.ended, ratelimits.ClassShared, c.wait, true, last.response}, last)
	})
}

func TestOnlyA429IsToldToTheLimiterBeforeItsBodyHasCome(t *testing.T) {
	bubble(t, func(t *testing.T) {
		limiter := &watcher{start: time.Now()}
		below := newScript(answer(http.StatusBadGateway, ""), fail(io.EOF), answer(http.StatusNotFound, ""))
		transport := newTransport(t, below, httpclient.WithLimiter(limiter))
		assertStatus(t, http.StatusNotFound, send(transport, getChannel(t)))
		require.Len(t, limiter.told, 3)
		for _, told := range limiter.told {
			assert.Equal(t, "ended", told.what)
		}
	})
}

// If a request cannot be repeated after a 429, the 429 must be returned with its whole body, even if the body arrives
// after the wait that the 429 asks for.
func TestA429ThatIsReturnedHasItsWholeBodyHoweverLateThatComes(t *testing.T) {
	const precise = `{"message":"You are being rate limited.","retry_after":9,"global":false}`
	type story struct {
		delay time.Duration
		text  string
	}
	inBubbles(t, map[string]story{
		"at once":        {0, precise},
		"late":           {time.Second, precise},
		"too late":       {6 * time.Second, precise},
		"large":          {0, strings.Repeat("a", 200<<10)},
		"large and late": {6 * time.Second, strings.Repeat("a", 200<<10)},
	}, func(t *testing.T, c story) {
		below := newScript(answerSlowly(http.StatusTooManyRequests, c.text, c.delay,
			"X-RateLimit-Scope: user", "Retry-After: 9", "Via: 1.1 google"))
		r := newMessage(t)
		r.GetBody = nil // the body can be sent only once
		sent := send(newTransport(t, below, eachBody(0)), r)
		assertStatus(t, http.StatusTooManyRequests, sent)
		assert.Equal(t, c.text, sent.body)
		assert.Equal(t, min(c.delay, 5*time.Second), sent.took)
	})
}

// The transport reads the body of a 429 in the background. Closing the body must end that read.
func TestA429ThatIsReturnedCanBeClosedBeforeItsBodyHasCome(t *testing.T) {
	t.Parallel()
	for _, read := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			below := newScript(answerWith(http.StatusTooManyRequests,
				func() io.ReadCloser { return stall(time.Hour, strings.NewReader("{}")) },
				"X-RateLimit-Scope: user", "Retry-After: 9"))
			r := newMessage(t)
			r.GetBody = nil
			response := roundTrip(t, newTransport(t, below, eachBody(0)), r)
			done := make(chan error, 1)
			if read {
				go func() {
					_, err := io.ReadAll(response.Body)
					done <- err
				}()
				time.Sleep(time.Second)
			}
			start := time.Now()
			require.NoError(t, response.Body.Close())
			if read {
				assert.Error(t, <-done)
			}
			synctest.Wait()
			assert.Zero(t, time.Since(start))
		})
	}
}

func TestLiftHoldsEndsWaitsAfter429sAlsoWithAnotherLimiter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(refuse("user", "120"), refuse("user", "3"), answer(http.StatusOK, "{}"))
		transport := newTransport(t, below, httpclient.WithLimiter(buckets.Unlimited{}))
		transport.LiftHolds() // nothing is held yet
		waiting := send(transport, newMessage(t))
		time.Sleep(time.Second)
		transport.LiftHolds()
		assertStatus(t, http.StatusOK, waiting)
		assert.InDelta(t, 4*time.Second, waiting.took, float64(slack), "a later 429 must hold requests again")
	})
}

// 429s before LiftHolds and 429s after LiftHolds must not count as consecutive.
func TestLiftHoldsEndsTheRowOf429sWithAnotherLimiter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		again := refuse("user", "0")
		below := newScript(again, again, again, again, refuse("user", "120"), again, answer(http.StatusOK, "{}"))
		transport := newTransport(t, below, httpclient.WithLimiter(buckets.Unlimited{}))
		waiting := send(transport, newMessage(t))
		time.Sleep(2 * time.Second)
		transport.LiftHolds()
		assertStatus(t, http.StatusOK, waiting)
		assert.InDelta(t, 2*time.Second, waiting.took, float64(slack))
	})
}

// The wait after a 429 must count from the arrival of its headers, even if its body arrives long after them.
func TestTheWaitAfterA429CountsFromItsHeaderWhateverTheLimiter(t *testing.T) {
	inBubbles(t, map[string][]httpclient.Option{
		"manager": nil, "another limiter": {httpclient.WithLimiter(buckets.Unlimited{})},
	}, func(t *testing.T, options []httpclient.Option) {
		late := answerSlowly(http.StatusTooManyRequests, `{"retry_after":8}`, 3*time.Second,
			"X-RateLimit-Scope: user", "Retry-After: 8", "Via: 1.1 google")
		transport := httpclient.NewTransport(append(options,
			httpclient.WithBase(newScript(late, answer(http.StatusOK, "{}"))))...)
		defer transport.Close()
		c := send(transport, newMessage(t))
		assertStatus(t, http.StatusOK, c)
		assert.InDelta(t, 8*time.Second, c.took, float64(slack))
	})
}

const (
	otherRoute = "/api/v10/guilds/1/roles"
	callback   = "/api/v10/interactions/1/aW50ZXJhY3Rpb246MTp4/callback"
	roomLeft   = "X-RateLimit-Remaining: 4"
)

// refusal429 returns a function that answers requests with a 429. The 429 has the given body, a JSON Content-Type, and
// the given header lines.
func refusal429(body string, header ...string) func(*http.Request) (*http.Response, error) {
	return answer(http.StatusTooManyRequests, body, append([]string{"Content-Type: application/json"}, header...)...)
}

// limitHeaders returns the headers of a bucket of five requests per second. The lines in more are added, or replace
// lines of the same name.
func limitHeaders(remaining string, more ...string) []string {
	return append([]string{"X-RateLimit-Bucket: abc", "X-RateLimit-Limit: 5", remaining, "X-RateLimit-Reset-After: 1"},
		more...)
}

func TestA429ThatAsksForMoreThanTheMaximumIsAnError(t *testing.T) {
	type story struct {
		refusal responder
		class   ratelimits.Class
		global  bool
	}
	inBubbles(t, map[string]story{
		"user": {
			refusal: refusal429(`{"retry_after":4}`,
				limitHeaders("X-RateLimit-Remaining: 0", "X-RateLimit-Reset-After: 4", "X-RateLimit-Scope: user")...),
			class: ratelimits.ClassUser,
		},
		"shared": {
			refusal: refusal429(`{"retry_after":4}`, limitHeaders(roomLeft, "X-RateLimit-Scope: shared")...),
			class:   ratelimits.ClassShared,
		},
		"sub-limit": {
			refusal: refusal429(`{"retry_after":"4"}`, limitHeaders(roomLeft, "X-RateLimit-Scope: user")...),
			class:   ratelimits.ClassSubLimit,
		},
		"global": {
			refusal: refusal429(`{"retry_after":4,"global":true}`, "X-RateLimit-Scope: global"), class: ratelimits.ClassGlobal,
			global: true,
		},
		"edge": {
			refusal: answer(http.StatusTooManyRequests, "<html>", "Content-Type: text/html", "Retry-After: 4"),
			class:   ratelimits.ClassEdge, global: true,
		},
	}, func(t *testing.T, c story) {
		below := newScript(c.refusal, answer(http.StatusOK, "{}"))
		below.takes = time.Second
		transport := newTransport(t, below, httpclient.WithMaxRateLimit(3*time.Second))
		first := send(transport, newMessage(t))
		synctest.Wait()
		queued := send(transport, newMessage(t)) // begins to wait before the refusal is known
		for _, c2 := range []*call{first, queued} {
			tooLong := errorAs[*ratelimits.TooLongError](t, c2.wait().err)
			assert.Equal(t, "POST /channels/{channel_id}/messages", tooLong.Route)
			assert.Equal(t, c.class, tooLong.Class)
			assert.Equal(t, c.global, tooLong.Global)
			assert.InDelta(t, 4, (tooLong.Wait - tooLong.Waited).Seconds(), 0.01)
			assert.Equal(t, time.Second, c2.took, "both fail as soon as the 429 is known")
		}
		assert.Len(t, below.requests(), 1)
		time.Sleep(4 * time.Second)
		assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
	})
}

// A server responds again and again with a 429 that asks for no wait at all. The transport must repeat the request at
// growing intervals, because Discord counts each refusal as an invalid request.
func TestA429ThatSaysToWaitNothingIsNotAnEndlessLoop(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]responder{
		"user":       refuse("user", "0"),
		"shared":     refuse("shared", "0"),
		"global":     refuse("global", "0"),
		"sub-limit":  refusal429(`{"retry_after":0}`, limitHeaders(roomLeft, "X-RateLimit-Scope: user")...),
		"edge, HTML": answer(http.StatusTooManyRequests, "<html>", "Content-Type: text/html", "Retry-After: 0"),
		"edge, JSON": answer(http.StatusTooManyRequests, `{"code":0}`, "Retry-After: 0"),
	} {
		for _, route := range []string{messages, callback} {
			inBubble(t, name+", "+route, func(t *testing.T) {
				below := newScript(refusal)
				below.takes = 10 * time.Millisecond
				transport := newTransport(t, below)
				ctx := within(t, 30*time.Second)
				r := newRequest(t, http.MethodPost, route, `{"content":"hello"}`).WithContext(ctx)
				assert.Error(t, send(transport, r).wait().err)
				assert.LessOrEqual(t, len(below.requests()), 30, "more than one request per second was sent")
			})
		}
	}
}

// newCallback returns a request that responds to interaction i. Its token differs from those of all other interactions.
func newCallback(t *testing.T, i int) *http.Request {
	t.Helper()
	r := newRequest(t, http.MethodPost, fmt.Sprintf("/api/v10/interactions/%d/aW50ZXJhY3Rpb246MTp4%d/callback", i, i),
		`{"type":1}`)
	r.Header.Del("Authorization")
	return r
}

func TestARefusalOfTheEdgeWithoutATimeIsAnErrorAndHoldsEverything(t *testing.T) {
	t.Parallel()
	for name, page := range map[string]discordsim.Page{"HTML": discordsim.PageHTML, "JSON": discordsim.PageJSON} {
		inBubble(t, name, func(t *testing.T) {
			server := newDiscord(t, discordsim.Config{
				Edge: []discordsim.EdgeBan{{From: 0, Until: 500 * time.Millisecond, Page: page, Silent: true}},
			})
			transport := newTransport(t, server.RoundTripper())
			first := send(transport, newMessage(t)).wait()
			edge := errorAs[*ratelimits.EdgeError](t, first.err)
			assert.Equal(t, "POST /channels/{channel_id}/messages", edge.Route)
			assert.Less(t, first.took, slack, "the request must not be repeated")
			assert.InDelta(t, 2, edge.Hold.Seconds(), 1)
			assert.Equal(t, edge.Hold, transport.Manager().EdgeWait(""))

			otherBot := newRequest(t, http.MethodGet, otherRoute, "")
			otherBot.Header.Set("Authorization", "Bot other")
			others := []*call{send(transport, newMessage(t)), send(transport, otherBot), send(transport, newCallback(t, 1))}
			assertStatus(t, http.StatusOK, others...)
			for _, c := range others {
				assertTook(t, edge.Hold, c.took)
			}
			assert.Equal(t, 1, server.Report().Refused.Edge)
		})
	}
}

// The edge refuses every callback and never says for how long. The hold must grow with each such refusal. Then
// callbacks are sent to the edge less and less often, however often a caller makes them.
func TestCallbacksDoNotSpinAtTheEdge(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := newDiscord(t, discordsim.Config{Edge: []discordsim.EdgeBan{{From: 0, Until: time.Hour, Silent: true}}})
		transport := newTransport(t, server.RoundTripper(), httpclient.WithMaxRateLimit(2*time.Hour))
		start, attempts := time.Now(), 0
		var last time.Duration
		for time.Since(start) < time.Hour {
			c := send(transport, newCallback(t, attempts)).wait()
			if attempts++; c.err == nil {
				break
			}
			require.Less(t, attempts, 100, "the hold must grow")
			edge := errorAs[*ratelimits.EdgeError](t, c.err)
			last = edge.Hold
		}
		assert.Equal(t, attempts, server.Report().Requests, "each callback must be sent once")
		assert.Less(t, attempts, 20)
		assert.Greater(t, last, 5*time.Minute, "the hold must grow")
		time.Sleep(10*time.Minute + time.Second)
		assertStatus(t, http.StatusOK, send(transport, newCallback(t, 0)))
	})
}

// channels returns a simulated Discord that allows two changes of a channel's name in ten minutes. No header shows this
// limit.
func channels(quota discordsim.Quota) discordsim.Config {
	return discordsim.Config{Rules: []discordsim.Rule{{
		Method: http.MethodPatch, Path: "/channels/{id}", Quota: quota,
		SubLimits: []discordsim.SubLimit{{Fields: []string{"name"}, Quota: discordsim.Fixed(2, 10*time.Minute), Code: 20028}},
	}}}
}

func rename(t *testing.T) *http.Request {
	t.Helper()
	return newRequest(t, http.MethodPatch, "/api/v10/channels/1", `{"name":"new"}`)
}

// After a 429, the request must be sent again when the wait that the 429 asks for has passed. Which header or which
// field of the body counts is tested in package ratelimits.
func TestA429IsRepeatedWhenItSays(t *testing.T) {
	const user, date = "X-RateLimit-Scope: user", "Date: Tue, 02 Aug 2016 21:23:43 GMT"
	type story struct {
		refusal responder
		want    time.Duration
	}
	inBubbles(t, map[string]story{
		"user, the body is more precise": {refusal429(`{"retry_after":0.2}`, user, "Retry-After: 1"), 200 * time.Millisecond},
		"user, nothing remains": {
			refusal429(`{"retry_after":1}`, limitHeaders("X-RateLimit-Remaining: 0", user, "Retry-After: 1")...), time.Second,
		},
		"two milliseconds in quotes": {refusal429(`{"retry_after":"0.002"}`, user), 2 * time.Millisecond},
		"header only":                {refusal429(``, user, "Retry-After: 2"), 2 * time.Second},
		"no Via, but an API's body":  {refusal429(`{"retry_after":1.5,"global":false}`), 1500 * time.Millisecond},
		"shared, the body is longer": {
			refusal429(`{"retry_after":1163}`, limitHeaders(roomLeft, "X-RateLimit-Scope: shared", "Retry-After: 1")...),
			1163 * time.Second,
		},
		"sub-limit":                 {refusal429(`{"retry_after":300}`, limitHeaders(roomLeft, user)...), 300 * time.Second},
		"global, by the body alone": {refusal429(`{"retry_after":0.5,"global":true}`), 500 * time.Millisecond},
		"edge, HTML":                {answer(429, "<html>", "Content-Type: text/html", "Retry-After: 30"), 30 * time.Second},
		"edge, JSON":                {refusal429(`{"message":"blocked","code":0}`, "Retry-After: 30"), 30 * time.Second},
		"a date by the server's clock": {
			refusal429(`{}`, user, date, "Retry-After: Tue, 02 Aug 2016 21:23:46 GMT"), 4 * time.Second,
		},
		"no way of telling when": {refusal429(``, user), time.Second},
	}, func(t *testing.T, c story) {
		below := newScript(c.refusal, answer(http.StatusOK, "{}"))
		sent := send(newTransport(t, below, httpclient.WithMaxRateLimit(time.Hour)), newMessage(t))
		assertStatus(t, http.StatusOK, sent)
		assertTook(t, c.want, sent.took)
		assert.Len(t, below.requests(), 2)
	})
}

// The transport must tell the manager which fields a body sets. Otherwise a hidden limit for one field would also delay
// requests that set other fields.
func TestRenamesWaitForTheirHiddenLimitAndTopicsPass(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := newDiscord(t, channels(discordsim.Fixed(5, 5*time.Second)))
		transport := newTransport(t, server.RoundTripper(), httpclient.WithMaxRateLimit(time.Hour))
		start := time.Now()
		assertStatus(t, http.StatusOK, send(transport, rename(t)), send(transport, rename(t)))
		third := send(transport, rename(t)) // the hidden limit refuses it
		time.Sleep(100 * time.Millisecond)
		fourth := send(transport, rename(t)) // it waits without being sent
		topic := send(transport, newRequest(t, http.MethodPatch, channel, `{"topic":"new"}`))
		assertStatus(t, http.StatusOK, topic)
		assert.Less(t, topic.took, 6*time.Second, "the topic waited longer than its own bucket requires")
		assertStatus(t, http.StatusOK, third, fourth)
		assertTook(t, 10*time.Minute, time.Since(start))
		assert.Equal(t, 1, server.Report().Refused.Total())
	})
}
