package buckets_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/routes"
)

// counted sends n messages to each of some channels by turns of the managers, lets a judge see when the server has them, and returns how long that took.
func counted(t *testing.T, all []*world, n int, channels []int, judge func(channel int)) time.Duration {
	t.Helper()
	var mu sync.Mutex
	start, last := time.Now(), time.Time{}
	for i := range n {
		for _, channel := range channels {
			w := all[i%len(all)]
			request := &buckets.Request{Route: message(channel), Authorization: bot, Group: strconv.Itoa(channel % 2)}
			w.all.Go(func() {
				lease, err := w.manager.AcquireRequest(context.Background(), request)
				if !assert.NoError(t, err) {
					return
				}
				time.Sleep(10 * time.Millisecond)
				mu.Lock()
				judge(channel)
				last = time.Now()
				mu.Unlock()
				response, err := w.attempt(context.Background(), "POST", "/channels/"+strconv.Itoa(channel)+"/messages", i)
				assert.NoError(t, err)
				lease.Update(response)
			})
			time.Sleep(100 * time.Microsecond)
		}
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		for _, w := range all {
			w.all.Wait()
		}
	}()
	select {
	case <-over:
	case <-time.After(time.Hour):
		require.FailNow(t, "somebody waits for ever")
	}
	return last.Sub(start)
}

// Managers that share a declared limit keep it together, and are as fast as one, whatever else their requests wait for.
func TestManagersShareDeclaredLimits(t *testing.T) {
	t.Parallel()
	create := buckets.ForRoute(routes.CreateMessage)
	route := buckets.WithLimit(create, 5, 10*time.Second, buckets.Named("route"))
	group := buckets.WithLimit(create, 2, 4*time.Second, buckets.Named("group"), buckets.PerGroup())
	channel := buckets.WithLimit(create, 3, time.Minute, buckets.Named("channel"), buckets.PerMajor())
	for name, c := range map[string]struct {
		quota   discordsim.Quota
		options []buckets.Option
		within  time.Duration // 12 messages to each of three channels, of which two are in one group
	}{
		"one limit":           {discordsim.Fixed(100, time.Second), []buckets.Option{route}, 71 * time.Second},
		"a slow bucket, too":  {discordsim.Fixed(1, 3*time.Second), []buckets.Option{route}, 73 * time.Second},
		"two limits":          {discordsim.Fixed(100, time.Second), []buckets.Option{route, group}, 73 * time.Second},
		"three limits":        {discordsim.Fixed(2, time.Second), []buckets.Option{route, group, channel}, 200 * time.Second},
		"nothing but channel": {discordsim.Fixed(5, time.Second), []buckets.Option{channel}, 185 * time.Second},
	} {
		for _, term := range []time.Duration{0, 3 * time.Second} {
			for _, managers := range []int{1, 2, 3} {
				t.Run(name+" "+strconv.Itoa(managers)+" "+term.String(), func(t *testing.T) {
					t.Parallel()
					bubble(t, func(t *testing.T) {
						perRoute := &limitedLog{5, 10 * time.Second, map[string][]time.Time{}}
						perGroup := &limitedLog{2, 4 * time.Second, map[string][]time.Time{}}
						perChannel := &limitedLog{3, time.Minute, map[string][]time.Time{}}
						logs := map[string][]*limitedLog{
							"one limit": {perRoute}, "a slow bucket, too": {perRoute}, "two limits": {perRoute, perGroup},
							"three limits": {perRoute, perGroup, perChannel}, "nothing but channel": {perChannel},
						}[name]
						h := newHub(t)
						h.term = term
						all := fleet(t, h, managers, one(discordsim.Rule{Quota: c.quota}), c.options...)
						took := counted(t, all, 12, []int{1, 2, 3}, func(channel int) {
							for _, log := range logs {
								key := ""
								switch log {
								case perGroup:
									key = strconv.Itoa(channel % 2)
								case perChannel:
									key = strconv.Itoa(channel)
								}
								log.process(t, key)
							}
						})
						t.Logf("took %v", took)
						assert.LessOrEqual(t, took, c.within)
						assert.Zero(t, refusals(all[0].Server))
						synctest.Wait()
						h.ends(t, all)
					})
				})
			}
		}
	}
}
