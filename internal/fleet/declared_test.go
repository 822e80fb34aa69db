package fleet_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/fleet"
	"github.com/ratelight/ratelight/routes"
)

// declares has the limits that a play (one run of a simulation) declares for messages: one limit for each group, and
// one for each channel.
type declares struct {
	groups             int // number of groups; the number of a channel decides to which group the channel belongs
	perGroup, perMajor int
	inGroup, inMajor   time.Duration
	memory             time.Duration // how long before a period a loss of state still allows more requests in it
}

// declare draws the declared limits.
func (s *scene) declare() {
	chance := rand.New(rand.NewPCG(s.seed, 7))
	pick := func(values ...int) int { return values[chance.IntN(len(values))] }
	s.declares = &declares{
		groups:   pick(s.places, s.places, 1, 2),
		perGroup: pick(3, 10, 30), inGroup: time.Duration(pick(2, 5, 10, 60)) * time.Second,
		perMajor: pick(2, 5, 10), inMajor: time.Duration(pick(3, 5, 10, 90)) * time.Second,
		memory: 5 * time.Second,
	}
	s.length = max(s.length, 40*time.Second)
}

func (d *declares) options() []buckets.Option {
	if d == nil {
		return nil
	}
	messages := buckets.ForRoute(routes.CreateMessage)
	return []buckets.Option{
		buckets.WithLimit(messages, d.perGroup, d.inGroup, buckets.PerGroup(), buckets.Named("group")),
		buckets.WithLimit(messages, d.perMajor, d.inMajor, buckets.PerMajor(), buckets.Named("channel")),
	}
}

func (d *declares) group(path string) string {
	if d == nil {
		return ""
	}
	var channel int
	_, _ = fmt.Sscanf(path, "/channels/%d/messages", &channel)
	return fmt.Sprint("guild ", (channel-1)%d.groups)
}

// patience returns the longest wait for declared limits.
func (d *declares) patience() time.Duration {
	if d == nil {
		return 0
	}
	return 20 * (d.inGroup + d.inMajor)
}

func (d *declares) longest() time.Duration { return max(d.inGroup, d.inMajor) }

func (d *declares) String() string {
	if d == nil {
		return "nothing"
	}
	return fmt.Sprintf("%d in %v for each of %d groups, %d in %v for each channel",
		d.perGroup, d.inGroup, d.groups, d.perMajor, d.inMajor)
}

// judge looks for a period in which Discord processed more requests than a limit allows. For each loss of state during
// the period, or within the duration memory before the period, as many additional requests as the limit are allowed.
// judge returns a path under the limit, the end of the period, and a description, "" if there is no such period.
func (d *declares) judge(f *fleet.Fleet, lost []time.Duration) (path string, until time.Duration, problem string) {
	groups, channels, someOf := map[string][]time.Duration{}, map[string][]time.Duration{}, map[string]string{}
	for path, at := range f.Processed {
		groups[d.group(path)] = append(groups[d.group(path)], at)
		channels[path] = append(channels[path], at)
		someOf[d.group(path)], someOf[path] = path, path
	}
	for _, kind := range []struct {
		of     map[string][]time.Duration
		limit  int
		period time.Duration
	}{{groups, d.perGroup, d.inGroup}, {channels, d.perMajor, d.inMajor}} {
		for _, key := range slices.Sorted(maps.Keys(kind.of)) {
			all := kind.of[key]
			slices.Sort(all)
			first := 0
			for i, at := range all {
				for at-all[first] >= kind.period {
					first++
				}
				most := kind.limit
				for _, loss := range lost {
					if all[first]-d.memory <= loss && loss <= at {
						most += kind.limit
					}
				}
				if n := i - first + 1; n > most {
					return someOf[key], at, fmt.Sprintf("%d requests of %s in %v, from %v to %v, %d allowed, state lost at %v",
						n, key, at-all[first], all[first], at, most, lost)
				}
			}
		}
	}
	return "", 0, ""
}

// TestWorldsWithDeclaredLimits runs plays of the worlds with declared limits. The flag -fleet.plays says how many plays
// of each world run; the default is one.
func TestWorldsWithDeclaredLimits(t *testing.T) {
	plays := max(*playCount, 1)
	for _, w := range worlds {
		if w.costs != "" {
			continue
		}
		w.declares = true
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			for seed := *playSeed; seed < *playSeed+plays; seed++ {
				var counts tally
				var err error
				synctest.Test(t, func(*testing.T) { counts, err = w.play(seed) })
				t.Logf("%d requests, %d calls, %d 429s", counts.requests, counts.calls, counts.refused)
				if err != nil {
					t.Fatalf("%v\nAgain: go test ./internal/fleet -run 'TestWorldsWithDeclaredLimits/%s$' "+
						"-fleet.seed=%d -fleet.plays=1", err, strings.ReplaceAll(w.name, " ", "_"), seed)
				}
			}
		})
	}
}

// A play must fail if the processes do not share declared limits.
func TestWorldsFailIfDeclaredLimitsAreNotShared(t *testing.T) {
	t.Parallel()
	w := world{name: "nothing is shared", apart: true, declares: true, scenery: func(s *scene, _ func(...int) int) {
		s.strangers, s.channels, s.length, s.quota = 70, 4, 40*time.Second, discordsim.Fixed(100, time.Second)
	}}
	var err error
	synctest.Test(t, func(*testing.T) { _, err = w.play(1) })
	require.ErrorContains(t, err, "allowed, state lost at []")
}
