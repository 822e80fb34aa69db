package proxy_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/httpclient/proxy"
)

// upTo sets the max wait of a request, in seconds.
func upTo(r *http.Request, seconds string) *http.Request {
	r.Header.Set("X-Ratelight-Max-Wait", seconds)
	return r
}

func TestAWaitThatIsTooLongIsA429LikeDiscordsAtOnce(t *testing.T) {
	play(t, func(t *testing.T) {
		w := usedUp(t, 60*time.Second)
		time.Sleep(2500 * time.Millisecond)
		got := w.send("POST", messages, "{}")
		assertOwn(t, got, 429, "too-long")
		assert.Zero(t, got.took)
		assert.Equal(t, "58", got.Header.Get("Retry-After"))
		assert.Equal(t, "1", got.Header.Get("X-RateLimit-Limit"))
		assert.Equal(t, "0", got.Header.Get("X-RateLimit-Remaining"))
		assert.Equal(t, "messages", got.Header.Get("X-RateLimit-Bucket"))
		assert.Equal(t, "user", got.Header.Get("X-RateLimit-Scope"))
		assert.Empty(t, got.Header.Get("X-RateLimit-Global"))
		e := got.error(t)
		assert.InDelta(t, 57.5, *e.RetryAfter, 0.01)
		assert.False(t, *e.Global)
		after, err := strconv.ParseFloat(got.Header.Get("X-RateLimit-Reset-After"), 64)
		require.NoError(t, err)
		assert.InDelta(t, *e.RetryAfter, after, 1e-9)
		reset, err := strconv.ParseFloat(got.Header.Get("X-RateLimit-Reset"), 64)
		require.NoError(t, err)
		assert.InDelta(t, float64(time.Now().UnixMilli())/1000+57.5, reset, 0.01)

		time.Sleep(time.Duration(*e.RetryAfter * float64(time.Second)))
		assert.Equal(t, 200, w.send("POST", messages, "{}").StatusCode, "a request after that wait must be served")
	})
}

// A hold begins while a request waits. The response must say how long the hold still lasts.
func TestAWaitThatBecomesTooLongIsA429ForTheRestOfIt(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorld(t, []discordtest.Rule{
			discordtest.Window("POST /channels/{id}/messages", 1, 30*time.Second),
			discordtest.Refuse("GET /users/@me", discordtest.Global, 2*time.Minute),
		})
		w.send("POST", messages, "{}")
		waiting := w.start(upTo(newRequest(t, "POST", messages, "{}"), "60"))
		time.Sleep(10 * time.Second)
		w.do(upTo(newRequest(t, "GET", "/users/@me", ""), "0"))
		got := <-waiting
		assertOwn(t, got, 429, "too-long")
		assert.InDelta(t, 120, *got.error(t).RetryAfter, 0.1)
	})
}

func TestGroupsThatRequestsNameTakeTurns(t *testing.T) {
	play(t, func(t *testing.T) {
		w := usedUp(t, time.Second)
		of := func(group string) <-chan response {
			r := newRequest(t, "POST", messages, "{}")
			r.Header.Set("X-Ratelight-Group", group)
			done := w.start(r)
			synctest.Wait()
			return done
		}
		var all []<-chan response
		for range 5 {
			all = append(all, of("a"))
		}
		other := <-of("b")
		assert.Equal(t, 200, other.StatusCode)
		assert.InDelta(t, 2, other.took.Seconds(), 0.1, "the group waits for one request of the other group")
		for _, done := range all {
			assert.Equal(t, 200, (<-done).StatusCode)
		}
		for _, r := range w.discord.Requests() {
			assert.Empty(t, r.Header.Get("X-Ratelight-Group"))
		}
		got := <-of(strings.Repeat("x", 101))
		assertOwn(t, got, 400, "bad-request")
		assert.Contains(t, got.text, "X-Ratelight-Group")
	})
}

// If a request would wait too long for a declared limit, the 429 must not say that the bucket is used up, because
// requests that do not need the declared limit may still use the bucket.
func TestAWaitForADeclaredLimitIsA429ThatLeavesTheBucketAlone(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorld(t, []discordtest.Rule{discordtest.Window("PATCH /channels/{id}", 5, time.Second).Bucket("channel")},
			proxy.WithTransport(httpclient.WithBuckets(buckets.WithKnownLimits(buckets.ChannelNameAndTopic))))
		const channel = "/api/v10/channels/1"
		for range 2 {
			assert.Equal(t, 200, w.send("PATCH", channel, `{"name": "x"}`).StatusCode)
		}
		got := w.send("PATCH", channel, `{"name": "x"}`)
		assertOwn(t, got, 429, "too-long")
		assert.Equal(t, "600", got.Header.Get("Retry-After"))
		assert.Empty(t, got.Header.Get("X-RateLimit-Limit"))
		assert.Contains(t, got.text, "channel-name-and-topic")
		assert.Equal(t, 200, w.send("PATCH", channel, `{"nsfw": true}`).StatusCode)
	})
}

func TestBotsWithRaisedLimitsHaveTheirOwn(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorld(t, []discordtest.Rule{discordtest.Unlimited("*"), discordtest.GlobalLimit(1000)},
			proxy.WithGlobalLimits(60, map[string]int{"123456789": 500}))
		for authorization, most := range map[string]int{
			token: 500, "Bot OTg3NjU0MzIx.a.b": 60, "Bearer MTIzNDU2Nzg5.a.b": 60,
		} {
			r := newRequest(t, "GET", "/api/v10/channels/1", "")
			r.Header.Set("Authorization", authorization)
			w.do(r.Clone(t.Context())) // makes the bot known to the proxy
			time.Sleep(5 * time.Second)
			start, all := time.Now(), make([]<-chan response, most+1)
			for i := range all {
				all[i] = w.start(r.Clone(t.Context()))
			}
			soon := 0
			for _, done := range all {
				if got := <-done; assert.NoError(t, got.err) && got.took < time.Second/2 {
					soon++
				}
			}
			assert.Equal(t, most, soon, authorization)
			assert.InDelta(t, 1, time.Since(start).Seconds(), 0.1)
		}
	})
}

func (w *world) assertNoneLeft() {
	w.t.Helper()
	synctest.Wait()
	stats := w.handler.Transport().Manager().Stats()
	assert.Zero(w.t, stats.Waiting)
	assert.Zero(w.t, stats.InFlight)
}

// assertOnly asserts that exactly the given number of requests have reached Discord, and that no request waits or is in
// flight.
func (w *world) assertOnly(requests int) {
	w.t.Helper()
	w.assertNoneLeft()
	assert.Len(w.t, w.discord.Requests(), requests)
}

func TestAClientThatDisconnectsGivesItsPlaceBackAndIsNeverSent(t *testing.T) {
	playEach(t, map[string]string{
		"without a body": "", "with a body": `{"content":"never"}`,
		"with a large body in memory": strings.Repeat("x", 900_000),
	}, func(t *testing.T, body string) {
		w := usedUp(t, 60*time.Second)
		var waiting []<-chan response
		var stop []func()
		for range 3 {
			r := upTo(newRequest(t, "POST", messages, body), "300")
			ctx, cancel := withCancel(r)
			waiting, stop = append(waiting, w.start(ctx)), append(stop, cancel)
		}
		last := w.start(upTo(newRequest(t, "POST", messages, `{"content":"last"}`), "300"))
		synctest.Wait()
		require.Equal(t, 4, w.handler.Transport().Manager().Stats().Waiting)
		for i, cancel := range stop {
			cancel()
			assert.Error(t, (<-waiting[i]).err)
		}
		synctest.Wait()
		assert.Equal(t, 1, w.handler.Transport().Manager().Stats().Waiting, "the places in the queue are free at once")
		got := <-last
		require.NoError(t, got.err)
		assert.InDelta(t, 60, got.took.Seconds(), 0.1, "the next request moves up")
		time.Sleep(10 * time.Minute)
		w.assertOnly(2)
	})
}

// The proxy reads a large body only when the request may be sent, so it notices only at that time that the client has
// disconnected. Even so, Discord must not get the complete request.
func TestAClientThatDisconnectsWithABodyThatIsNotKeptIsNeverSentEither(t *testing.T) {
	for name, length := range map[string]int64{"with its length": 1, "of unknown length": -1} {
		playIn(t, name, func(t *testing.T) {
			w := usedUp(t, 8*time.Second, proxy.WithMaxBufferedBody(1000))
			r := newRequest(t, "POST", messages, strings.Repeat("x", 500_000))
			if length < 0 {
				r.ContentLength = length
			}
			r, cancel := withCancel(r)
			waiting := w.start(r)
			synctest.Wait()
			cancel()
			assert.Error(t, (<-waiting).err)
			time.Sleep(time.Minute)
			w.assertOnly(1)
			assert.Equal(t, 200, w.send("POST", messages, "{}").StatusCode)
		})
	}
}

func TestALargeBodyCannotAskForALongerWait(t *testing.T) {
	play(t, func(t *testing.T) {
		w := usedUp(t, 20*time.Second, proxy.WithMaxBufferedBody(1000))
		assertOwn(t, w.do(upTo(newRequest(t, "POST", messages, strings.Repeat("x", 500_000)), "300")), 429, "too-long")
		r := upTo(newRequest(t, "POST", messages, "{}"), "300")
		r.ContentLength = -1
		assertOwn(t, w.do(r), 429, "too-long")
		assert.Equal(t, 200, w.do(upTo(newRequest(t, "POST", messages, "{}"), "300")).StatusCode)
	})
}

// A load must take as long through the proxy as directly, and Discord must refuse none of its requests.
func TestALoadTakesAsLongThroughTheProxyAsDirectly(t *testing.T) {
	play(t, func(t *testing.T) {
		rules := []discordtest.Rule{
			discordtest.Sliding("POST /channels/{id}/messages", 5, 5*time.Second),
			discordtest.Window("GET /channels/{id}", 10, 2*time.Second),
			discordtest.Leaky("PUT /guilds/{id}/members/{id}/roles/{id}", 4, 4*time.Second),
			discordtest.Latency(100 * time.Millisecond),
		}
		load := func(do func(*http.Request) (*http.Response, error)) time.Duration {
			start := time.Now()
			var all sync.WaitGroup
			for i := range 240 {
				operation := []string{"POST /channels/%d/messages", "GET /channels/%d", "PUT /guilds/%d/members/1/roles/1"}[i%3]
				method, path, _ := strings.Cut(fmt.Sprintf(operation, i%4), " ")
				all.Go(func() {
					r := upTo(newRequest(t, method, "/api/v10"+path, ""), "300")
					r.URL.Scheme, r.URL.Host = "https", "discord.com"
					got, err := do(r)
					if assert.NoError(t, err) {
						assert.Equal(t, 200, got.StatusCode)
						got.Body.Close()
					}
				})
			}
			all.Wait()
			return time.Since(start)
		}
		discord := discordtest.NewServer(t, rules...)
		transport := httpclient.NewTransport(httpclient.WithBase(discord.Client().Transport))
		defer transport.Close()
		directly := load((&http.Client{Transport: transport}).Do)

		w := newWorld(t, rules)
		w.client.Transport.(*http.Transport).DisableKeepAlives = true
		through := load(func(r *http.Request) (*http.Response, error) {
			r.URL.Scheme, r.URL.Host = "http", "proxy"
			return w.client.Do(r)
		})
		t.Logf("directly %v, through the proxy %v", directly, through)
		// The two times may differ by some round trips, because it depends on the order of arrival which buckets are
		// discovered one after the other and which at the same time.
		assert.InDelta(t, directly.Seconds(), through.Seconds(), 0.5)
		assert.Empty(t, discord.Refused())
		assert.Empty(t, w.discord.Refused())
	})
}

func TestARequestSaysHowLongItMayWait(t *testing.T) {
	play(t, func(t *testing.T) {
		w := usedUp(t, 60*time.Second)
		message := func(longest string) response { return w.do(upTo(newRequest(t, "POST", messages, "{}"), longest)) }
		for _, text := range []string{"", "0", "59.5", "0x1p2"} {
			assertOwn(t, message(text), 429, "too-long")
		}
		for _, text := range []string{"61", "1e9", "+Inf"} {
			got := message(text)
			assert.Equal(t, 200, got.StatusCode, text)
			assert.InDelta(t, 60, got.took.Seconds(), 0.1)
		}
		for _, text := range []string{"-1", "a", "NaN", "10s", "1,5"} {
			got := message(text)
			assertOwn(t, got, 400, "bad-request")
			assert.Contains(t, got.text, "X-Ratelight-Max-Wait")
		}
		w = usedUp(t, proxy.LongestWait+time.Minute)
		assertOwn(t, message("100000"), 429, "too-long")
	})
}

func TestWhoWaitsIsServedInAShutdownAndToldOfAClose(t *testing.T) {
	playEach(t, map[string]bool{"shutdown": true, "close": false}, func(t *testing.T, served bool) {
		w := usedUp(t, 5*time.Second)
		waiting, over := w.start(newRequest(t, "POST", messages, "{}")), make(chan error, 1)
		synctest.Wait()
		if !served {
			require.NoError(t, w.handler.Close())
			got := <-waiting
			assertOwn(t, got, 503, "closed")
			assert.Equal(t, "1", got.Header.Get("Retry-After"))
			return
		}
		go func() { over <- w.handler.Shutdown(t.Context()) }()
		synctest.Wait()
		assertOwn(t, w.send("GET", "/users/@me", ""), 503, "closed")
		assert.Equal(t, 200, (<-waiting).StatusCode)
		assert.NoError(t, <-over)
	})
}

// newEdit returns a request that edits a message and whose header X-Ratelight-Latest has the given values. With "true",
// the edit supersedes earlier edits of the message.
func newEdit(t *testing.T, latest ...string) *http.Request {
	t.Helper()
	r := newRequest(t, "PATCH", messages+"/2", `{"content":"x"}`)
	r.Header["X-Ratelight-Latest"] = latest
	return r
}

func TestAnEditWithTheHeaderSupersedesOthersWithIt(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorld(t, []discordtest.Rule{discordtest.Window("PATCH /channels/{id}/messages/{id}", 1, 5*time.Second)})
		w.do(newEdit(t, "true"))
		var all []<-chan response
		for _, latest := range []string{"true", "", "true"} {
			all = append(all, w.start(newEdit(t, latest)))
			synctest.Wait()
		}
		got := <-all[0]
		assertOwn(t, got, http.StatusConflict, "superseded")
		assert.Equal(t, "superseded: PATCH /channels/{channel_id}/messages/{message_id} was never sent, because a newer "+
			"request with the same key took its place", got.error(t).Message)
		assert.Equal(t, 0, *got.error(t).Code)
		assert.Empty(t, got.Header.Get("Retry-After"))
		for _, done := range all[1:] {
			assert.Equal(t, http.StatusOK, (<-done).StatusCode)
		}
		for _, values := range [][]string{
			{"false"}, {"1"}, {"True"}, {"yes"}, {"true", "false"}, {"", "true"}, {"true", "true"}, {"true, true"},
		} {
			got := w.do(newEdit(t, values...))
			assertOwn(t, got, http.StatusBadRequest, "bad-request")
			assert.Contains(t, got.error(t).Message, "X-Ratelight-Latest is malformed: expected true")
		}
		assert.Len(t, w.discord.Requests(), 3)
	})
}
