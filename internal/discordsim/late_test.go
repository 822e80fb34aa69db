package discordsim

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestHeadersOfALateBucketSpeakAsIfItWerePunctual(t *testing.T) {
	t.Parallel()
	for name, quota := range map[string]Quota{
		"fixed": Fixed(1, 5*second), "aligned": Aligned(1, 5*second, 0), "sliding": Sliding(1, 5*second),
		"sliding, next": SlidingNext(1, 5*second), "leaky": Leaky(1, 5*second),
	} {
		w := messages(t, Rule{Quota: quota.Late(300*ms, 0)})
		first := send(w, 0, 1, post)[0]
		assert.Equal(t, "5.000", first.Header.Get(headerResetAfter), name)

		second := send(w, 5001*ms, 1, post)[0]
		assert.Equal(t, ClassUser, second.Class, name)
		assert.Equal(t, "user", second.Header.Get(headerScope), name)
		assert.Equal(t, "0", second.Header.Get(headerRemaining), name)
		assert.Equal(t, "0.299", second.Header.Get(headerResetAfter), name)
		assert.Equal(t, "1", second.Header.Get(headerRetryAfter), name)
		assert.Contains(t, string(second.Body), `"retry_after":0.299`, name)

		assert.Equal(t, []int{429, 200}, statuses(append(send(w, 5300*ms-1, 1, post), send(w, 5300*ms, 1, post)...)), name)
	}
}

// Each place is late by itself; lateness does not add up from place to place.
func TestPlacesOfALateLogComeBackOneByOne(t *testing.T) {
	t.Parallel()
	for name, quota := range map[string]Quota{"sliding": Sliding(2, 2*second), "leaky": Leaky(2, 2*second)} {
		w := messages(t, Rule{Quota: quota.Late(300*ms, 0)})
		send(w, 0, 1, post)
		send(w, second, 1, post)
		// The places of the log are free at 2.3 s and 3.3 s, those of the leaky bucket a second earlier.
		first := map[string]time.Duration{"sliding": 2300 * ms, "leaky": 1300 * ms}[name]
		for i := range 2 {
			opens := first + time.Duration(i)*second
			responses := slices.Concat(send(w, opens-1, 1, post), send(w, opens, 2, post))
			assert.Equal(t, []int{429, 200, 429}, statuses(responses), "%s %d", name, i)
		}
	}
}

func TestVerdictsOnLateness(t *testing.T) {
	t.Parallel()
	one, five := Fixed(1, 5*second).Late(300*ms, 0), Fixed(5, 5*second).Late(300*ms, 0)
	batch := func(n int, sent time.Duration) (steps []step) {
		for range n {
			steps = append(steps, trip(sent))
		}
		return steps
	}
	// kept is n requests of a client that sends one per 5.3 s, beginning at from.
	kept := func(from time.Duration, n int) (steps []step) {
		for i := range n {
			steps = append(steps, instant(from+time.Duration(i)*5300*ms))
		}
		return steps
	}
	becoming := func(lateness ...time.Duration) Rule {
		rule := Rule{Quota: Fixed(1, 5*second)}
		for i, late := range lateness {
			rule.Changes = append(rule.Changes, Change{At: time.Duration(i) * time.Minute, Quota: rule.Quota.Late(late, 0)})
		}
		return rule
	}
	tests := []struct {
		name     string
		rule     Rule
		story    []step
		want     []string
		openings int
	}{
		{"the refusal that shows lateness", Rule{Quota: one},
			[]step{instant(0), instant(5001 * ms), instant(5300 * ms)}, []string{becauseLate}, 1},
		{"the refusal had named the wait", Rule{Quota: one},
			[]step{instant(0), instant(5001 * ms), instant(5200 * ms)}, []string{becauseLate, becauseTold}, 1},
		{"sent before the announced opening", Rule{Quota: one},
			[]step{instant(0), instant(4999 * ms)}, []string{becauseTold}, 0},
		{"in flight before the announced opening", Rule{Quota: one}, []step{
			{sent: 0, processed: 50 * ms, answered: 6 * second}, {sent: ms, processed: 5100 * ms, answered: 7 * second},
		}, []string{becauseOwn}, 0},
		{"in flight at the same opening", Rule{Quota: five}, slices.Concat(batch(1, 0), batch(4, 100*ms), batch(5, 5100*ms)),
			slices.Repeat([]string{becauseLate}, 5), 1},
		{"more at one opening than the bucket holds", Rule{Quota: five},
			slices.Concat(batch(1, 0), batch(4, 100*ms), batch(6, 5100*ms)),
			append(slices.Repeat([]string{becauseLate}, 5), becauseOwn), 1},
		{"as late as shown", Rule{Quota: one}, slices.Concat(
			kept(0, 1), kept(5001*ms, 1), kept(5300*ms, 1), kept(10_301*ms, 1), kept(10_600*ms, 1), kept(15_601*ms, 1)),
			[]string{becauseLate, becauseTried, becauseLateTold}, 2},
		// Two tries: the first needs one period since the refusal before, the second two periods.
		{"tried less and less often", Rule{Quota: one}, slices.Concat(
			kept(0, 1), kept(5001*ms, 1), kept(5300*ms, 1), kept(10_301*ms, 1), kept(10_600*ms, 2), kept(20_901*ms, 1)),
			[]string{becauseLate, becauseTried, becauseTried}, 3},
		{"tried with more than one request", Rule{Quota: five}, slices.Concat(
			batch(1, 0), batch(4, 100*ms), batch(1, 5100*ms), batch(5, 5350*ms), batch(2, 10_450*ms)),
			[]string{becauseLate, becauseTried, becauseLateTold}, 2},
		{"later than shown", becoming(300*ms, 600*ms), slices.Concat(
			kept(0, 1), kept(5001*ms, 1), kept(5300*ms, 11), kept(63_600*ms, 1), kept(68_900*ms, 1)),
			[]string{becauseLate, becauseLate}, 2},
		{"a change of lateness is no change of the limit", becoming(0, 300*ms), []step{
			instant(0), {sent: 60 * second, processed: 60 * second, answered: 66 * second}, instant(65_001 * ms),
		}, []string{becauseLate}, 1},
		{"punctual again, and late again", becoming(300*ms, 0, 300*ms), slices.Concat(
			kept(0, 1), kept(5001*ms, 1), kept(5300*ms, 1), kept(61*second, 1), kept(66*second, 1),
			// the answer at 66 s shows that the bucket is punctual
			kept(120*second, 1), kept(125_001*ms, 1)), []string{becauseLate, becauseTried}, 2},
		{"as late as if another client had taken the place", Rule{Quota: Fixed(1, second).Late(1500*ms, 0)},
			[]step{instant(0), instant(1001 * ms), instant(2500 * ms), instant(3501 * ms)},
			[]string{becauseOthers, becauseOthers}, 0},
		{"perhaps another client has taken the place", Rule{Quota: Fixed(1, second).Late(300*ms, 0)}, []step{
			{processed: 800 * ms, answered: 800 * ms}, // perhaps the window ended at 1 s, and another client's at 2.1 s
			instant(1801 * ms), instant(2100 * ms), instant(3101 * ms),
		}, []string{becauseLate, becauseLate}, 2},
		{"an answer shows that the window is over", Rule{Quota: Fixed(2, second).Late(300*ms, 0)}, []step{
			{processed: 0, answered: 100 * ms}, {sent: 1050 * ms, processed: 1050 * ms, answered: 1050 * ms}, instant(1060 * ms),
		}, []string{becauseLate}, 1},
		{"the places of other clients", Rule{Quota: one},
			[]step{others(0, 1), trip(5 * second), trip(5300 * ms)}, []string{becauseOthers}, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := messages(t, test.rule)
			verdicts, reasons := tell(w, test.story...)
			require.Equal(t, test.want, reasons)
			late := 0
			for i, reason := range reasons {
				excused := reason == becauseLate || reason == becauseTried
				require.Equal(t, excused, verdicts[i] == Excused)
				if excused {
					late++
				}
			}
			report := w.Report()
			assert.Equal(t, late, report.Late.User)
			assert.Equal(t, late, report.Excused.Total())
			assert.Equal(t, test.openings, report.LateOpenings)
			assert.Equal(t, test.openings, report.Buckets[0].LateOpenings)
		})
	}
}

// If a client has seen places become free earlier than refusals had shown, it may send a whole batch at that time.
func TestABatchIsExcusedAfterAnEarlyOpening(t *testing.T) {
	t.Parallel()
	five := Fixed(5, 5*second)
	w := messages(t, Rule{Quota: five.Late(300*ms, 0), Changes: []Change{
		{At: 8 * second, Quota: five}, {At: 14 * second, Quota: five.Late(300*ms, 0)},
	}})
	burst := func(sent time.Duration) (steps []step) { return slices.Repeat([]step{trip(sent)}, 5) }
	// Windows open at 0.05, 5.45, 10.8 and 15.95 s. The one of 10.8 s is on time, and an answer shows that.
	_, reasons := tell(w, slices.Concat(
		burst(0), burst(5100 * ms)[:1], burst(5400*ms), burst(10_750*ms), burst(15_900*ms), burst(21*second))...)
	assert.Equal(t, append([]string{becauseLate}, slices.Repeat([]string{becauseTried}, 5)...), reasons)
}

// A slow request leaves a place of a window that closes late. Another request takes this place after the announced end,
// which looks as if the bucket had opened.
func TestABatchIsExcusedAfterWhatLooksLikeAnEarlyOpening(t *testing.T) {
	t.Parallel()
	w := messages(t, Rule{Quota: Fixed(3, 5*second).Late(300*ms, 0)})
	_, reasons := tell(w,
		trip(0), trip(100*ms), trip(100*ms), trip(5100*ms), // the last one shows how late the bucket opens
		trip(5400*ms), trip(5500*ms), // a window until 10.45 s, really 10.75 s, with one place left
		trip(10_450*ms), trip(10_560*ms), trip(10_560*ms))
	assert.Equal(t, []string{becauseLate, becauseTried, becauseTried}, reasons)
}

func TestTheGlobalLimitMayOpenLate(t *testing.T) {
	t.Parallel()
	two := func(quota Quota) func(*Config) { return func(c *Config) { c.Global = quota } }
	w := messages(t, Rule{Quota: Unlimited()}, two(Fixed(2, second).Late(200*ms, 0)))
	_, reasons := tell(w, instant(0), instant(0), instant(1001*ms), instant(1100*ms),
		instant(1200*ms), instant(1200*ms), instant(1300*ms))
	assert.Equal(t, []string{becauseLate, becauseTold, becauseOwn}, reasons)
	assert.Equal(t, 1, w.Report().Late.Global)

	// The request takes the place of the first request, not the latest place that a client may use again.
	w = messages(t, Rule{Quota: Unlimited()}, two(Fixed(2, second).Late(200*ms, 0)))
	_, reasons = tell(w, instant(0), instant(2*ms), step{sent: 1001 * ms, processed: 1003 * ms, answered: 1010 * ms})
	assert.Equal(t, []string{becauseLate}, reasons)

	// Aligned windows that are all late by the same time are punctual windows of another phase.
	w = messages(t, Rule{Quota: Unlimited()}, two(Aligned(2, second, 0).Late(200*ms, 0)))
	_, reasons = tell(w, instant(200*ms), instant(200*ms), instant(1200*ms), instant(1200*ms), instant(2199*ms))
	assert.Equal(t, []string{becauseOwn}, reasons)
}

func TestLatenessOfSomeBucketsOnly(t *testing.T) {
	t.Parallel()
	w := messages(t, Rule{Quota: Fixed(1, 5*second), Vary: LateFor(Lateness{By: 300 * ms}, "1")})
	other := with(post, "/channels/2/messages")
	send(w, 0, 1, post)
	send(w, 0, 1, other)
	assert.Equal(t, []int{429, 200}, statuses(append(send(w, 5*second, 1, post), send(w, 5*second, 1, other)...)))
}

// openings returns when a bucket of one request accepts requests of a client that tries every millisecond.
func openings(t *testing.T, seed uint64, path string, quota Quota) (list []time.Duration) {
	w := messages(t, Rule{Quota: quota}, func(c *Config) { c.Seed, c.Global = seed, Unlimited() })
	for now := time.Duration(0); len(list) < 30; now += ms {
		if send(w, now, 1, with(post, path))[0].Class == ClassNone {
			list = append(list, now)
		}
	}
	return list
}

func TestRandomLatenessIsDrawnForEachOpeningFromTheSeed(t *testing.T) {
	t.Parallel()
	quota := Fixed(1, 100*ms).Late(20*ms, 80*ms)
	list := openings(t, 7, "/channels/1/messages", quota)
	assert.Equal(t, list, openings(t, 7, "/channels/1/messages", quota))
	assert.NotEqual(t, list, openings(t, 8, "/channels/1/messages", quota))
	assert.NotEqual(t, list, openings(t, 7, "/channels/2/messages", quota))
	shortest, longest := time.Hour, time.Duration(0)
	for i := 1; i < len(list); i++ {
		late := list[i] - list[i-1] - quota.Period
		shortest, longest = min(shortest, late), max(longest, late)
	}
	assert.GreaterOrEqual(t, shortest, 20*ms)
	assert.Less(t, shortest, 35*ms)
	assert.LessOrEqual(t, longest, 101*ms)
	assert.Greater(t, longest, 85*ms)

	plan, err := Omniscient(Conditions{Seed: 7, Global: Unlimited()}, Work{Quota: quota, Count: 30, Major: "1"})
	require.NoError(t, err)
	for i, sent := range plan.Sent[0] {
		assert.InDelta(t, float64(list[i]), float64(sent), float64(time.Duration(i)*ms), "the ideal client knows opening %d", i)
	}
}

// A client waits for as long as any refusal has shown, and sends one request at a time. It must never be blamed.
func TestAClientThatLearnsLatenessIsNeverBlamed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		quota := drawQuota(t)
		quota.Extend, quota.NamesNext = 0, false
		w, err := NewWorld(start, Config{Rules: []Rule{{Path: "**", Quota: quota}}, Global: Unlimited()})
		require.NoError(t, err)
		in := time.Duration(rapid.IntRange(0, 200).Draw(t, "in")) * ms
		now, learnt, announced := start, time.Duration(0), start
		for range 100 {
			request := post
			request.SentAt = now
			response := w.Handle(now.Add(in), request)
			require.NotEqual(t, Avoidable, response.Verdict, response.Because)
			now = now.Add(2 * in)
			w.Deliver(response, now)
			wait := obey(response)
			if response.Class != ClassNone {
				now = now.Add(wait) // the bucket opens earlier, by the time that the answer travelled
				learnt = max(learnt, now.Sub(announced))
				continue
			}
			announced = now.Add(wait)
			now = announced.Add(learnt)
		}
	})
}
