package httpclient_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// One request, which has to wait much longer than a second, is cancelled after a second. It must return at once, and
// the two requests that wait behind it must be sent.
func TestACancelledRequestLeavesNothingBehind(t *testing.T) {
	slow := discordsim.Fault{Nth: []int{1}, Delay: 5 * time.Second}
	slowBody := discordsim.Fault{Nth: []int{1}, BodyDelay: 5 * time.Second}
	ban := discordsim.EdgeBan{Until: 5 * time.Second}
	unlimited := everything(discordsim.Unlimited())
	taken := func(config discordsim.Config) discordsim.Config { // another client uses the limit at the start
		config.Foreign = []discordsim.ForeignUse{{
			Request: discordsim.Request{
				Method: http.MethodPatch, Path: "/channels/1", Authorization: authorization, Fields: []string{"name"},
			}, Count: 2, At: []time.Duration{0},
		}}
		return config
	}
	blocked := unlimited
	blocked.Blocks = []discordsim.GlobalBlock{{Until: 5 * time.Second}}
	banned := unlimited
	banned.Edge = []discordsim.EdgeBan{ban}

	type story struct {
		config discordsim.Config
		global int
		ahead  int // number of requests ahead of the cancelled one
	}
	inBubbles(t, map[string]story{
		"while the route is discovered":            {config: everything(discordsim.Fixed(5, time.Second), slow), ahead: 1},
		"in its bucket's queue":                    {config: everything(discordsim.Fixed(1, 5*time.Second)), ahead: 1},
		"deep in its bucket's queue":               {config: everything(discordsim.Fixed(1, 5*time.Second)), ahead: 3},
		"in line for the global limit":             {config: unlimited, global: 1, ahead: 4},
		"refused, in its bucket's queue":           {config: taken(everything(discordsim.Fixed(2, 5*time.Second)))},
		"refused, for the global limit":            {config: blocked},
		"behind a global refusal":                  {config: blocked, ahead: 1},
		"refused by the edge":                      {config: banned},
		"behind a refusal of the edge":             {config: banned, ahead: 1},
		"refused by a hidden limit":                {config: taken(channels(discordsim.Fixed(9, 5*time.Second)))},
		"behind a request that met a hidden limit": {config: taken(channels(discordsim.Fixed(9, 5*time.Second))), ahead: 1},
		"in flight":                 {config: everything(discordsim.Fixed(5, time.Second), slow)},
		"while its answer is read":  {config: everything(discordsim.Fixed(5, time.Second), slowBody)},
		"while its refusal is read": {config: taken(everything(discordsim.Fixed(2, 5*time.Second), slowBody))},
	}, func(t *testing.T, c story) {
		server := newDiscord(t, c.config)
		global := c.global
		if global == 0 {
			global = buckets.DefaultGlobalLimit
		}
		transport := newTransport(t, server.RoundTripper(), httpclient.WithMaxRateLimit(time.Hour),
			httpclient.WithBuckets(buckets.WithGlobalLimit(global)))
		var others []*call
		for range c.ahead {
			others = append(others, send(transport, rename(t)))
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		victim := send(transport, rename(t).WithContext(ctx))
		synctest.Wait()
		for range 2 {
			others = append(others, send(transport, rename(t)))
			synctest.Wait()
		}
		time.Sleep(time.Second)
		require.False(t, victim.over(), "the request should still wait")
		cancel()
		synctest.Wait()
		require.True(t, victim.over(), "RoundTrip must return at once")
		require.ErrorIs(t, victim.err, context.Canceled)

		assertStatus(t, http.StatusOK, others...)
		assertNothingHeld(t, transport)
		time.Sleep(20 * time.Minute)
		later := send(transport, rename(t))
		assertStatus(t, http.StatusOK, later)
		assert.Less(t, later.took, slack)
		assert.Zero(t, server.Report().Avoidable.Total())
	})
}

// The deprecated Request.Cancel must still end an attempt, because http.Transport obeys it. It does not end a wait in
// the queue. Only the context ends such a wait.
func TestTheCancelChannelOfARequestEndsItsAttempt(t *testing.T) {
	inBubbles(t, map[string]discordsim.Fault{
		"headers": {Delay: time.Minute}, "body": {BodyDelay: time.Minute},
	}, func(t *testing.T, fault discordsim.Fault) {
		server := newDiscord(t, everything(discordsim.Fixed(5, time.Second), fault))
		below := &http.Transport{DialContext: server.DialContext}
		defer below.CloseIdleConnections()
		cancel := make(chan struct{})
		r := getChannel(t)
		r.Cancel = cancel //lint:ignore SA1019 it is what is tested
		time.AfterFunc(time.Second, func() { close(cancel) })
		start := time.Now()
		sent := send(newTransport(t, below), r).wait()
		assert.ErrorContains(t, sent.err, "request canceled")
		assert.Equal(t, time.Second, time.Since(start))
		assert.Equal(t, 1, server.Report().Requests)
	})
}

// The timeout of an http.Client must end a request in every phase. The client cancels the request's context, and may
// also use the deprecated Request.Cancel, which the transport leaves to the base.
func TestTheTimeoutOfAClientEndsARequestWhereverItIs(t *testing.T) {
	ok := answer(http.StatusOK, "")
	never := answerSlowly(http.StatusTooManyRequests, "", time.Hour, "X-RateLimit-Scope: user", "Retry-After: 1")
	slow := everything(discordsim.Fixed(5, time.Second), discordsim.Fault{Nth: []int{2}, Delay: time.Minute})
	busy := everything(discordsim.Fixed(1, time.Second), discordsim.Fault{Nth: []int{2}, Delay: time.Minute})
	slowBody := everything(discordsim.Fixed(5, time.Second), discordsim.Fault{Nth: []int{2}, BodyDelay: time.Minute})
	failing := answer(http.StatusServiceUnavailable, "", "Retry-After: 3")
	type story struct {
		answers []responder // nil: the server answers as config says
		config  discordsim.Config
		sockets bool
		ahead   bool // another request is in flight
		pipe    bool // the request's body never arrives
	}
	inBubbles(t, map[string]story{
		"behind a request that is under way": {config: busy, ahead: true},
		"while it is sent":                   {config: slow},
		"while the body of a 200 is read":    {config: slowBody},
		"while it is sent, over sockets":     {config: slow, sockets: true},
		"while a body is read from a socket": {config: slowBody, sockets: true},
		"while a 429's body is read":         {answers: answers(ok, never)},
		"in the pause after a failure":       {answers: answers(ok, failing, silence)},
		"while its body is read into memory": {answers: answers(ok), pipe: true},
	}, func(t *testing.T, c story) {
		for _, parent := range parents {
			var below http.RoundTripper = newScript(c.answers...)
			if c.answers == nil {
				server := newDiscord(t, c.config)
				if below = server.RoundTripper(); c.sockets {
					sockets := &http.Transport{DialContext: server.DialContext}
					t.Cleanup(sockets.CloseIdleConnections)
					below = sockets
				}
			}
			transport := newTransport(t, below)
			assertStatus(t, http.StatusOK, send(transport, getChannel(t)))
			var ahead *call
			if c.ahead {
				ahead = send(transport, getChannel(t))
				synctest.Wait()
			}
			r := getChannel(t).WithContext(parent(t))
			if c.pipe {
				r.Body, _ = io.Pipe()
			}
			start := time.Now()
			response, err := (&http.Client{Transport: transport, Timeout: 4 * time.Second}).Do(r)
			if err == nil {
				_, err = io.ReadAll(response.Body)
				response.Body.Close()
			}
			assert.Equal(t, 4*time.Second, time.Since(start))
			assert.True(t, errorAs[net.Error](t, err).Timeout())
			synctest.Wait()
			if ahead != nil {
				ahead.wait()
			}
			assertNothingHeld(t, transport)
		}
	})
}
