package fleet_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/fleet"
)

// next is the engine as a process with the next version of the protocol uses it: all keys and channels of that process
// have another prefix.
type next struct {
	shared.Engine
	shared.Subscriber
}

const thisVersion, nextVersion = "rl2:", "rl3:"

func rename(name string) string {
	if rest, ok := strings.CutPrefix(name, thisVersion); ok {
		return nextVersion + rest
	}
	return name
}

func (n next) Exchange(ctx context.Context, call *shared.Call) (*shared.Reply, error) {
	renamed := *call
	renamed.Steps = slices.Clone(call.Steps)
	for i := range renamed.Steps {
		step := &renamed.Steps[i]
		step.Key, step.Channels = rename(step.Key), slices.Clone(step.Channels)
		for i, channel := range step.Channels {
			step.Channels[i] = rename(channel)
		}
	}
	return n.Engine.Exchange(ctx, &renamed)
}

func (n next) Subscribe(ctx context.Context, channel string, received func(message string)) error {
	return n.Subscriber.Subscribe(ctx, rename(channel), received)
}

// versions returns a function for Config.Share. It gives the next version of the protocol to all processes whose number
// is at least from.
func versions(from int) func(int, shared.Engine) (shared.Source, error) {
	return func(process int, engine shared.Engine) (shared.Source, error) {
		if process >= from {
			engine = next{engine, engine.(shared.Subscriber)}
		}
		return shared.New(engine)
	}
}

// Processes with two versions of the protocol use the same buckets at the same time. If the engine loses the keys of
// one version, the other version must not be affected.
func TestVersionsOfTheProtocolAreIndependent(t *testing.T) {
	t.Parallel()
	config := bucket(discordsim.Rule{Quota: discordsim.Fixed(5, time.Second), Hash: "messages"})
	set := fleet.Config{Processes: 4, Discord: config, Buckets: unlimited, Share: versions(2)}
	inBubble(t, set, func(t *testing.T, f *fleet.Fleet) {
		for _, p := range f.Processes {
			callers(t, f, p, 2, 20, fleet.Message(1))
			callers(t, f, p, 2, 20, fleet.Message(10+p.Number))
		}
		for range 5 {
			time.Sleep(700 * time.Millisecond)
			for _, key := range f.Engine.Keys() {
				if strings.HasPrefix(key, nextVersion) {
					f.Engine.Evict(key)
				} else {
					require.True(t, strings.HasPrefix(key, thisVersion), key)
				}
			}
		}
		finish(t, f, 10*time.Minute)
		for _, p := range f.Processes {
			stats := p.Transport.Manager().Stats().Shared
			for script, calls := range stats.Calls {
				assert.Zero(t, calls.Errors, "%s of process %d", script, p.Number)
			}
			if p.Number < 2 {
				assert.Zero(t, stats.Losses, "process %d", p.Number)
			} else {
				assert.Positive(t, stats.Losses, "process %d", p.Number)
			}
		}
	})
}

// The next version of the protocol is rolled out as the README of buckets/shared describes. During the roll-out, all
// processes send as many requests as they can, each in its own buckets.
func TestRollOutOfTheNextVersionCausesNo429s(t *testing.T) {
	long(t)
	t.Parallel()
	const places, channels = 4, 8
	config := bucket(discordsim.Rule{Quota: discordsim.Fixed(5, time.Second), Hash: "messages"})
	config.Global = discordsim.Fixed(50, time.Second)
	whole, half := buckets.WithGlobalLimit(50), buckets.WithGlobalLimit(25)
	set := fleet.Config{Processes: places, Discord: config, Buckets: []buckets.Option{whole}, Share: versions(2 * places)}
	inBubble(t, set, func(t *testing.T, f *fleet.Fleet) {
		var mu sync.Mutex
		over, at := false, f.Processes[:places:places]
		who := func(place int) *fleet.Process {
			mu.Lock()
			defer mu.Unlock()
			if over {
				return nil
			}
			return at[place]
		}
		for place := range places {
			for channel := range channels {
				for range 3 {
					f.Go(func() {
						for p := who(place); p != nil; p = who(place) {
							switch o := p.Do(t.Context(), fleet.Message(1+channels*place+channel)); {
							case errors.Is(o.Err, buckets.ErrClosed):
								time.Sleep(50 * time.Millisecond)
							case o.Err != nil || o.Status != 200:
								t.Errorf("request of process %d: status %d, error %v", p.Number, o.Status, o.Err)
							}
						}
					})
				}
			}
		}
		for _, step := range []buckets.Option{half, half, whole} { // once with this version, twice with the next
			for place := range places {
				time.Sleep(5 * time.Second)
				require.NoError(t, who(place).Shutdown())
				p, err := f.Join(step)
				require.NoError(t, err)
				mu.Lock()
				at[place] = p
				mu.Unlock()
			}
		}
		time.Sleep(5 * time.Second)
		mu.Lock()
		over = true
		mu.Unlock()
		finish(t, f, time.Hour)
		report := f.Discord.Report()
		keys := strings.Join(f.Engine.Keys(), " ")
		assert.Contains(t, keys, nextVersion)
		t.Logf("%d requests, at most %d in a second", report.Requests, f.Busiest(time.Second))
		require.Greater(t, report.Accepted, 1200)
		assert.Zero(t, report.Refused.Total(), "%+v", f.Discord.Refusals())
	})
}
