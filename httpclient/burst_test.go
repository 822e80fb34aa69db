package httpclient_test

import (
	"fmt"
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

// everything is a simulated Discord with one limit for each channel and no global one.
func everything(quota discordsim.Quota, faults ...discordsim.Fault) discordsim.Config {
	return discordsim.Config{
		Rules:   []discordsim.Rule{{Path: "**", Quota: quota, Hash: "messages", Faults: faults}},
		Global:  discordsim.Unlimited(),
		FullLog: true,
	}
}

// unlimitedBot says that there is no global limit.
func unlimitedBot() httpclient.Option { return httpclient.WithBuckets(buckets.WithGlobalLimit(0)) }

func TestABucketOfOneIsUsedOncePerReset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config := everything(discordsim.Fixed(1, time.Second))
		config.Rules[0].Status = http.StatusNoContent
		server := newDiscord(t, config)
		transport := newTransport(t, server.RoundTripper())
		for range 3 { // each leaves nothing
			assertStatus(t, http.StatusNoContent, send(transport, newMessage(t)))
		}
		events := server.Events()
		require.Len(t, events, 3)
		for i := range 2 {
			assertTook(t, time.Second, events[i+1].At.Sub(events[i].At))
		}
	})
}

func TestNoBucketIsEverExceeded(t *testing.T) {
	t.Parallel()
	for kind, quota := range map[string]discordsim.Quota{
		"fixed": discordsim.Fixed(5, time.Second), "sliding": discordsim.Sliding(5, time.Second), "leaky": discordsim.Leaky(5, time.Second),
	} {
		for _, parallel := range []bool{false, true} {
			for _, others := range []int{0, 5} { // which empty the bucket beforehand, so that everything begins with a 429
				t.Run(fmt.Sprintf("%s, parallel %v, %d by others", kind, parallel, others), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						server := newDiscord(t, everything(quota))
						foreign := discordsim.Request{Method: http.MethodPost, Path: messages, Authorization: authorization}
						require.Equal(t, others, server.Consume(foreign, others))
						transport := newTransport(t, server.RoundTripper())
						start := time.Now()
						var calls []*call
						for range 30 {
							c := send(transport, newMessage(t))
							if calls = append(calls, c); !parallel {
								c.wait()
							}
						}
						assertStatus(t, http.StatusOK, calls...)
						assert.Less(t, time.Since(start), 10*time.Second, "much slower than five per second")
						report := server.Report()
						assert.Equal(t, min(others, 1), report.Refused.Total())
						assert.Zero(t, report.Avoidable.Total())
						assert.Equal(t, 30, report.Accepted)
					})
				})
			}
		}
	}
}

func TestAServerErrorStopsNothing(t *testing.T) {
	t.Parallel()
	for _, nth := range [][]int{{1}, {2}, {1, 2, 3}} {
		t.Run(fmt.Sprint(nth), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := newDiscord(t, everything(discordsim.Fixed(50, time.Minute), discordsim.Fault{Nth: nth, Status: http.StatusBadGateway}))
				transport := newTransport(t, server.RoundTripper())
				for range nth[len(nth)-1] - 1 {
					send(transport, newMessage(t)).wait()
				}
				broken := send(transport, newMessage(t)).wait()
				assertStatus(t, http.StatusBadGateway, broken)
				assert.Equal(t, "upstream connect error", broken.body)

				start := time.Now()
				var calls []*call
				for range 40 {
					calls = append(calls, send(transport, newMessage(t)))
				}
				assertStatus(t, http.StatusOK, calls...)
				assertTook(t, 0, time.Since(start))
				assert.Greater(t, server.Report().MaxInFlight, 30, "one after the other")
			})
		})
	}
}

func TestAColdStormSendsOneProbeAndThenNoMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit, storm = 50, 1000
		server := newDiscord(t, everything(discordsim.Fixed(limit, time.Second)))
		transport := newTransport(t, server.RoundTripper(), unlimitedBot())
		start := time.Now()
		var calls []*call
		for range storm {
			calls = append(calls, send(transport, newMessage(t)))
		}
		assertStatus(t, http.StatusOK, calls...)
		events := server.Events()
		require.Len(t, events, storm, "one for each, without a refusal")
		assert.Greater(t, events[1].SentAt.Sub(events[0].SentAt), 9*time.Millisecond, "before the probe's answer")
		assert.Equal(t, limit, sentBefore(events, start.Add(500*time.Millisecond)))
		assert.InDelta(t, storm/limit-1, time.Since(start).Seconds(), 1)
		assert.LessOrEqual(t, server.Report().MaxInFlight, limit)
	})
}

func sentBefore(events []discordsim.Event, moment time.Time) (n int) {
	for _, e := range events {
		if e.SentAt.Before(moment) {
			n++
		}
	}
	return n
}

func TestAColdStormOverManyChannelsGivesEachItsOwnCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newDiscord(t, everything(discordsim.Fixed(5, time.Minute)))
		transport := newTransport(t, server.RoundTripper(), unlimitedBot())
		start := time.Now()
		var calls []*call
		for range 5 {
			for channel := range 50 {
				path := fmt.Sprintf("/api/v10/channels/%d/messages", channel+1)
				calls = append(calls, send(transport, newRequest(t, http.MethodPost, path, `{"content":"hello"}`)))
			}
		}
		assertStatus(t, http.StatusOK, calls...)
		assertTook(t, 20*time.Millisecond, time.Since(start)) // the probe, then all the others together
		assert.Zero(t, server.Report().Refused.Total())
		assert.Len(t, server.Report().Buckets, 50)
	})
}

func TestAFixedBucketIsEmptiedAtOnceAfterEachReset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newDiscord(t, everything(discordsim.Fixed(5, 10*time.Second)))
		transport := newTransport(t, server.RoundTripper())
		start := time.Now()
		var calls []*call
		for range 25 {
			calls = append(calls, send(transport, newMessage(t)))
		}
		assertStatus(t, http.StatusOK, calls...)
		batches := make(map[int]int)
		for _, e := range server.Events() {
			batches[int(e.At.Sub(start)/(9*time.Second))]++
		}
		assert.Equal(t, map[int]int{0: 5, 1: 5, 2: 5, 3: 5, 4: 5}, batches)
		assert.InDelta(t, 40, time.Since(start).Seconds(), 0.1)
		last := server.Events()[20:]
		assert.Equal(t, last[0].SentAt, last[4].SentAt, "what is proven to be fixed needs no probe")
		assert.Zero(t, server.Report().Refused.Total())
	})
}

func TestTheRequestThatEmptiesABucketIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newDiscord(t, everything(discordsim.Fixed(2, 30*time.Second)))
		transport := newTransport(t, server.RoundTripper())
		first, second := send(transport, newMessage(t)).wait(), send(transport, newMessage(t)).wait()
		assertStatus(t, http.StatusOK, first, second)
		assert.Less(t, second.took, slack)
		third := send(transport, newMessage(t))
		assertStatus(t, http.StatusOK, third)
		assertTook(t, 30*time.Second-slack/2, third.took)
	})
}

// Only the server's Reset-After counts, whatever its clock shows.
func TestTheServersClockDoesNotMatter(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{-time.Hour, -5 * time.Second, 5 * time.Second, time.Hour} {
		t.Run(skew.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				config := everything(discordsim.Fixed(1, time.Second))
				config.ClockSkew = skew
				server := newDiscord(t, config)
				transport := newTransport(t, server.RoundTripper())
				assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
				second := send(transport, newMessage(t))
				assertStatus(t, http.StatusOK, second)
				assertTook(t, time.Second, second.took)
				assert.Zero(t, server.Report().Refused.Total())
			})
		})
	}
}

func TestFiftyTwoRequestsAgainstFiftyPerSecondAllFinish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newDiscord(t, discordsim.Config{
			Rules:  []discordsim.Rule{{Path: "**", Quota: discordsim.Unlimited()}},
			Global: discordsim.Aligned(50, time.Second, 300*time.Millisecond),
		})
		transport := newTransport(t, server.RoundTripper())
		start := time.Now()
		var calls []*call
		for i := range 52 {
			path := fmt.Sprintf("/api/v10/channels/%d/messages", i+1)
			calls = append(calls, send(transport, newRequest(t, http.MethodPost, path, `{"content":"hello"}`)))
		}
		assertStatus(t, http.StatusOK, calls...)
		assertTook(t, time.Second, time.Since(start))
		assert.Zero(t, server.Report().Refused.Total())
	})
}
