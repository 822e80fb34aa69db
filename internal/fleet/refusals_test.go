package fleet_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/fleet"
	"github.com/ratelight/ratelight/ratelimits"
)

// telling is how long it takes until all processes know of a response to one of them.
const telling = 6 * time.Millisecond

// When one process has got a 429, all processes must know of the limit.
func TestRefusalsOfEveryClass(t *testing.T) {
	long(t)
	t.Parallel()
	name := fleet.Request{Method: "PATCH", Path: "/channels/1", Body: `{"name":"new"}`}
	for _, c := range []struct {
		class   string
		change  func(*discordsim.Config)
		request fleet.Request
		// How many refusals of the class there may be in all, and how many of them avoidable.
		most, avoidable int
		of              func(discordsim.ByClass) int
	}{
		{
			class: "user", request: fleet.Message(1), most: 40, of: func(c discordsim.ByClass) int { return c.User },
			change: func(c *discordsim.Config) {
				c.Foreign = []discordsim.ForeignUse{{
					Request: discordsim.Request{Method: "POST", Path: "/channels/1/messages", Authorization: fleet.Authorization},
					Every:   700 * time.Millisecond, From: time.Second,
				}}
			},
		},
		{
			class: "shared", request: fleet.Message(1), most: 60, of: func(c discordsim.ByClass) int { return c.Shared },
			change: func(c *discordsim.Config) {
				c.Rules[0].Shared = &discordsim.SharedLimit{Quota: discordsim.Fixed(7, 4*time.Second)}
			},
		},
		{
			// Processes do not share sub-limits on body fields, so each process learns of the sub-limit by its own
			// 429s.
			class: "sub-limit", request: name, most: 4 * 26, avoidable: 4 * 26, of: func(c discordsim.ByClass) int { return c.SubLimit },
			change: func(c *discordsim.Config) {
				c.Rules[0].SubLimits = []discordsim.SubLimit{{Fields: []string{"name"}, Quota: discordsim.Fixed(4, 4*time.Second)}}
			},
		},
		{
			// One window of requests, and the requests that other processes send with returned permits before they know
			// of the hold. They learn of it after a few milliseconds, so none of these 429s is avoidable.
			class: "global", request: fleet.Message(1), most: 5 + 4, of: func(c discordsim.ByClass) int { return c.Global },
			change: func(c *discordsim.Config) {
				c.Blocks = []discordsim.GlobalBlock{{From: 3 * time.Second, Until: 8 * time.Second}}
			},
		},
		{
			// Processes do not share the hold of the edge either. Discord has not counted a request that the edge
			// refuses, so other processes may use its permit.
			class: "edge", request: fleet.Message(1), most: 5 + 4, avoidable: 4, of: func(c discordsim.ByClass) int { return c.Edge },
			change: func(c *discordsim.Config) {
				c.Edge = []discordsim.EdgeBan{{From: 3 * time.Second, Until: 8 * time.Second}}
			},
		},
	} {
		t.Run(c.class, func(t *testing.T) {
			config := bucket(discordsim.Rule{Quota: discordsim.Fixed(5, time.Second), Hash: "messages"})
			config.Tolerance = telling
			c.change(&config)
			inBubble(t, fleet.Config{Processes: 4, Discord: config, Buckets: unlimited}, func(t *testing.T, f *fleet.Fleet) {
				var mu sync.Mutex
				edge := 0
				for _, p := range f.Processes {
					for i := range 25 {
						f.Go(func() {
							time.Sleep(time.Duration(i*len(f.Processes)+p.Number) * time.Millisecond) // in turns, so that all are refused at once
							o := p.Do(t.Context(), c.request)
							mu.Lock()
							defer mu.Unlock()
							if errors.As(o.Err, new(*ratelimits.EdgeError)) {
								edge++
							} else if o.Err != nil || o.Status != 200 {
								t.Errorf("status %d, error %v", o.Status, o.Err)
							}
						})
					}
				}
				took := finish(t, f, time.Hour)
				report := f.Discord.Report()
				t.Logf("%d requests took %v, refused %+v, avoidable %+v", report.Requests, took, report.Refused, report.Avoidable)
				require.Equal(t, 100, report.Accepted+edge)
				assert.Positive(t, c.of(report.Refused))
				assert.LessOrEqual(t, c.of(report.Refused), c.most)
				assert.Equal(t, c.of(report.Refused), report.Refused.Total(), "nothing else")
				assert.LessOrEqual(t, report.Avoidable.Total(), c.avoidable, "%+v", f.Discord.Refusals())
			})
		})
	}
}
