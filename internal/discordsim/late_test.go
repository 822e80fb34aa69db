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

// Each place becomes free 300 ms later than announced. If several places are late, their delays must not add up.
func TestPlacesOfALateLogComeBackOneByOne(t *testing.T) {
	t.Parallel()
	for name, quota := range map[string]Quota{"sliding": Sliding(2, 2*second), "leaky": Leaky(2, 2*second)} {
		w := messages(t, Rule{Quota: quota.Late(300*ms, 0)})
		send(w, 0, 1, post)
		send(w, second, 1, post)
		// The places of the log become free at 2.3 s and 3.3 s. Those of the leaky bucket become free one second earlier.
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
	five, punctualFive := Fixed(5, 5*second).Late(300*ms, 0), Fixed(5, 5*second)
	one := rule(Fixed(1, 5*second).Late(300*ms, 0))
	becoming := func(lateness ...time.Duration) Rule {
		rule := rule(Fixed(1, 5*second))
		for i, late := range lateness {
			rule.Changes = append(rule.Changes, Change{At: time.Duration(i) * time.Minute, Quota: rule.Quota.Late(late, 0)})
		}
		return rule
	}
	for _, test := range []struct {
		name     string
		rule     Rule
		story    story
		want     string
		openings int
	}{
		{"the refusal that shows lateness", one, "0! 5001! 5300!", "late", 1},
		{"the refusal had named the wait", one, "0! 5001! 5200!", "late told", 1},
		{"sent before the announced opening", one, "0! 4999!", "told", 0},
		{"in flight before the announced opening", one, "0/50/6000 1/5100/7000", "own", 0},
		{"in flight at the same opening", rule(five), "0 100x4 5100x5", "late late late late late", 1},
		{"more at one opening than the bucket holds", rule(five), "0 100x4 5100x6", "late late late late late own", 1},
		{"as late as shown", one, "0! 5001! 5300! 10301! 10600! 15601!", "late tried latetold", 2},
		// The client tries twice. The first try is excused after one period without a refusal. The second try is excused only
		// after two such periods.
		{"tried less and less often", one, "0! 5001! 5300! 10301! 10600! 15900! 20901!", "late tried tried", 3},
		{"tried with more than one request", rule(five), "0 100x4 5100 5350x5 10450x2", "late tried latetold", 2},
		{"later than shown", becoming(300*ms, 600*ms), "0! 5001! 5300! 10600! 15900! 21200! 26500! 31800! 37100! 42400! " +
			"47700! 53000! 58300! 63600! 68900!", "late late", 2},
		{"a change of lateness is no change of the limit", becoming(0, 300*ms), "0! 60000/60000/66000 65001!", "late", 1},
		// The answer at 66 s shows that the bucket is punctual.
		{"punctual again, and late again", becoming(300*ms, 0, 300*ms),
			"0! 5001! 5300! 61000! 66000! 120000! 125001!", "late tried", 2},
		{"as late as if another client had taken the place", rule(Fixed(1, second).Late(1500*ms, 0)),
			"0! 1001! 2500! 3501!", "others others", 0},
		// For all the client knows, the window ended at 1 s, and a window of another client ended at 2.1 s.
		{"perhaps another client has taken the place", rule(Fixed(1, second).Late(300*ms, 0)),
			"0/800/800 1801! 2100! 3101!", "late late", 2},
		{"an answer shows that the window is over", rule(Fixed(2, second).Late(300*ms, 0)),
			"0/0/100 1050! 1060!", "late", 1},
		{"the places of other clients", one, "others@0 5000 5300", "others", 0},

		// If a client has read that a place became free after less lateness than refusals had shown, the client may send a
		// whole batch after the smaller lateness. After the window that begins at 10.8 s, the bucket opens on time, and an
		// answer shows this.
		{"a batch after an early opening", Rule{Quota: five, Changes: []Change{
			{At: 8 * second, Quota: punctualFive}, {At: 14 * second, Quota: five},
		}}, "0x5 5100 5400x5 10750x5 15900x5 21000x5", "late tried tried tried tried tried", 2},
		// Because of a slow request, a place is free in a window whose announced end is 10.45 s and whose real end is 10.75
		// s. Another request takes this place after the announced end, so the bucket seems to have opened.
		{"a batch after what looks like an early opening", rule(Fixed(3, 5*second).Late(300*ms, 0)),
			"0 100x2 5100 5400 5500 10450 10560x2", "late tried tried", 2},
	} {
		w := messages(t, test.rule)
		tell(t, w, nil, test.story, test.want, test.name)
		report := w.Report()
		assert.Equal(t, report.Excused.Total(), report.Late.User, test.name)
		assert.Equal(t, test.openings, report.LateOpenings, test.name)
		assert.Equal(t, test.openings, report.Buckets[0].LateOpenings, test.name)
	}
}

func TestTheGlobalLimitMayOpenLate(t *testing.T) {
	t.Parallel()
	late := Fixed(2, second).Late(200*ms, 0)
	for _, test := range []struct {
		name   string
		global Quota
		story  story
		want   string
		late   int
	}{
		{"requests at and after the announced opening", late, "0!x2 1001! 1100! 1200!x2 1300!", "late told own", 1},
		{"the place of the first request, not the latest place that a client may use again", late,
			"0! 2! 1001/1003/1010", "late", 1},
		{"aligned windows that are all late by the same time are punctual windows of another phase",
			Aligned(2, second, 0).Late(200*ms, 0), "200!x2 1200!x2 2199!", "own", 0},
	} {
		w := messages(t, rule(Unlimited()), globalOf(test.global))
		tell(t, w, nil, test.story, test.want, test.name)
		assert.Equal(t, test.late, w.Report().Late.Global, test.name)
	}
}

func TestLatenessOfSomeBucketsOnly(t *testing.T) {
	t.Parallel()
	w := messages(t, Rule{Quota: Fixed(1, 5*second), Vary: LateFor(Lateness{By: 300 * ms}, "1")})
	other := with(post, "/channels/2/messages")
	send(w, 0, 1, post)
	send(w, 0, 1, other)
	assert.Equal(t, []int{429, 200}, statuses(append(send(w, 5*second, 1, post), send(w, 5*second, 1, other)...)))
}

// openings returns the times at which a bucket with a limit of one accepts requests of a client that tries every
// millisecond.
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
		assert.InDelta(t, list[i], sent, float64(time.Duration(i)*ms), "the ideal client knows opening %d", i)
	}
}

// A client sends one request at a time, and waits for the largest lateness that a refusal has shown. Such a client must
// never be blamed.
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
				now = now.Add(wait) // the client waits a little too long, by the time that the answer travelled
				learnt = max(learnt, now.Sub(announced))
				continue
			}
			announced = now.Add(wait)
			now = announced.Add(learnt)
		}
	})
}
