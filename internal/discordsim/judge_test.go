package discordsim

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// step is a request with the times when it is sent, processed and answered. If answered is 0, the answer is never
// delivered.
type step struct {
	sent, processed, answered time.Duration
	foreign                   int // number of other clients' requests at processed, instead of a request
	request                   Request
}

// instant is a request that is sent, processed and answered at the same time.
func instant(at time.Duration) step { return step{sent: at, processed: at, answered: at} }

// tell runs the steps and returns verdicts and reasons of the refusals in their order.
func tell(w *World, steps ...step) (verdicts []Verdict, reasons []string) {
	for _, s := range steps {
		request := s.request
		if request.Path == "" {
			request = post
		}
		if s.foreign > 0 {
			w.Consume(at(s.processed), request, s.foreign)
			continue
		}
		request.SentAt = at(s.sent)
		response := w.Handle(at(s.processed), request)
		if s.answered > 0 || s.sent == s.answered {
			w.Deliver(response, at(s.answered))
		}
		if response.Class != ClassNone {
			verdicts, reasons = append(verdicts, response.Verdict), append(reasons, response.Because)
		}
	}
	return verdicts, reasons
}

// trip is a request that travels for 50 ms each way.
func trip(sent time.Duration) step {
	return step{sent: sent, processed: sent + 50*ms, answered: sent + 100*ms}
}

// retryInBody replaces retry_after in the body of all 429s, or of the given ones.
func retryInBody(d time.Duration, nth ...int) Fault {
	f := editRefusals(func(_ *Response, body *limitBody) {
		stated := d.Seconds()
		body.RetryAfter = &stated
	})
	f.Nth = nth
	return f
}

func others(at time.Duration, n int) step { return step{processed: at, foreign: n} }

func TestVerdicts(t *testing.T) {
	t.Parallel()
	three := Rule{Quota: Fixed(3, time.Second)}
	threeSliding := Rule{Quota: Sliding(3, time.Second)}
	shared := Rule{Quota: Fixed(9, time.Second), Shared: &SharedLimit{Quota: Fixed(1, 10*time.Second)}}
	globalOf3 := func(c *Config) { c.Global = Aligned(3, time.Second, 0) }
	lie := func(f func(*State)) Rule {
		return Rule{Quota: Fixed(2, time.Second), Faults: []Fault{{Nth: []int{1}, State: func(s State) State { f(&s); return s }}}}
	}
	plain := func(*Config) {}
	tests := []struct {
		name   string
		rule   Rule
		config func(*Config)
		story  []step
		want   []string
	}{
		{"a burst on an unknown bucket", three, plain,
			[]step{trip(0), trip(0), trip(0), trip(0)}, []string{becauseOwn}},
		{"one too many in a known window", three, plain,
			[]step{trip(0), trip(100 * ms), trip(100 * ms), trip(100 * ms)}, []string{becauseTold}},
		{"an answer had named none remaining", three, plain,
			[]step{trip(0), trip(100 * ms), trip(100 * ms), trip(200 * ms)}, []string{becauseTold}},
		{"sent a moment before the answer came", three, plain,
			[]step{trip(0), trip(1 * ms), trip(2 * ms), trip(99 * ms)}, []string{becauseOwn}},
		{"others took the last places, and no answer said so", three, plain,
			[]step{trip(0), others(60*ms, 2), trip(100 * ms)}, []string{becauseOthers}},
		{"others took the last places, and an answer said so", three, plain,
			[]step{others(0, 2), trip(0), trip(100 * ms)}, []string{becauseTold}},
		{"one place was left and two were taken", three, plain,
			[]step{others(0, 1), trip(0), trip(100 * ms), trip(101 * ms)}, []string{becauseTold}},
		{"one place was left, and a request in flight took it", three, plain,
			[]step{others(0, 1), trip(0), trip(60 * ms), trip(101 * ms)}, []string{becauseOthers}},
		{"one place was left, and others were quicker", three, plain,
			[]step{others(0, 1), trip(0), others(120*ms, 1), trip(100 * ms)}, []string{becauseOthers}},
		{"the window that the answer named is over", three, plain,
			[]step{others(0, 2), trip(0), others(1001*ms, 3), trip(1060 * ms)}, []string{becauseOthers}},
		{"sent a little before the window has certainly ended", three, plain,
			[]step{others(0, 2), trip(0), others(1001*ms, 3), trip(1049 * ms)}, []string{becauseTold}},
		{"after a 429, its time not over", three, plain,
			[]step{others(0, 3), trip(0), trip(100 * ms), trip(1049 * ms)}, []string{becauseOthers, becauseTold}},
		{"the precise time counts, not the whole second of the header", Rule{Quota: Fixed(3, 300*ms)}, plain,
			[]step{others(0, 3), trip(0), others(360*ms, 3), trip(400 * ms)}, []string{becauseOthers, becauseOthers}},
		{"a sliding place came back and was taken by others", threeSliding, plain,
			[]step{trip(0), others(150*ms, 2), trip(200 * ms), others(1050*ms, 1), others(1160*ms, 2), trip(1300 * ms)},
			[]string{becauseOthers, becauseOthers}},
		{"a sliding place is not back yet", threeSliding, plain,
			[]step{trip(0), trip(100 * ms), trip(100 * ms), trip(600 * ms)}, []string{becauseOwn}},

		{"a log that names the next place: it looks like a window, which excuses one window",
			Rule{Quota: SlidingNext(2, time.Second)}, plain,
			[]step{trip(0), trip(400 * ms), trip(1100 * ms), trip(1101 * ms), trip(1102 * ms)},
			[]string{becauseKind, becauseOwn}},
		{"a log that names the next place: too early for any kind", Rule{Quota: SlidingNext(2, time.Second)}, plain,
			[]step{trip(0), trip(100 * ms), trip(900 * ms)}, []string{becauseOwn}},
		{"a log that names the next place: answers have shown that it is no window",
			Rule{Quota: SlidingNext(2, time.Second)}, plain,
			[]step{trip(0), trip(400 * ms), trip(1100 * ms), trip(1500 * ms), trip(1501 * ms)}, []string{becauseOwn}},
		{"a log that names the last place: it does not look like a window", Rule{Quota: Sliding(2, time.Second)}, plain,
			[]step{trip(0), trip(400 * ms), trip(1100 * ms), trip(1101 * ms)}, []string{becauseOwn}},
		{"a block that each refusal extends: again before its time",
			Rule{Quota: Extending(1, time.Second, 2*time.Second)}, plain,
			[]step{others(0, 1), trip(0), trip(2949 * ms), trip(5100 * ms)}, []string{becauseOthers, becauseTold}},
		{"a block that was extended by a refusal not yet read", Rule{Quota: Extending(1, time.Second, 2*time.Second)}, plain,
			[]step{trip(0), {sent: 900 * ms, processed: 950 * ms, answered: 1500 * ms}, trip(1100 * ms), trip(1500 * ms)},
			[]string{becauseTold, becauseOthers, becauseTold}},

		{"shared: the first refusal", shared, plain,
			[]step{trip(0), trip(0)}, []string{becauseOthers}},
		{"shared: again before its time", shared, plain,
			[]step{trip(0), trip(0), trip(100 * ms)}, []string{becauseOthers, becauseTold}},
		{"shared: again, sent before the refusal was read", shared, plain,
			[]step{trip(0), trip(0), trip(99 * ms)}, []string{becauseOthers, becauseOthers}},
		{"shared: again after its time, but others were quicker", shared, plain,
			[]step{trip(0), trip(0), others(10_060*ms, 1), trip(10_100 * ms)}, []string{becauseOthers, becauseOthers}},

		{"global: too many in one window", Rule{}, globalOf3,
			[]step{instant(0), instant(1), instant(2), instant(3)}, []string{becauseOwn}},
		{"global: used up by others", Rule{}, globalOf3,
			[]step{others(0, 2), instant(1 * ms), instant(2 * ms)}, []string{becauseOthers}},
		{"global: too fast in another phase, which others reveal", Rule{}, globalOf3,
			[]step{instant(900 * ms), instant(901 * ms), instant(1001 * ms), others(1002*ms, 2), instant(1003 * ms)},
			[]string{becauseOwnPace}},
		{"global: again before its time", Rule{}, globalOf3,
			[]step{others(0, 3), instant(1 * ms), instant(999 * ms)}, []string{becauseOthers, becauseTold}},

		{"global: a block, and requests during it", Rule{}, func(c *Config) {
			c.Global, c.Blocks = Aligned(1, time.Second, 0), []GlobalBlock{{From: 500 * ms, Until: 9 * time.Second}}
		}, []step{trip(0), trip(600 * ms), trip(699 * ms), trip(700 * ms), trip(9 * time.Second)},
			[]string{becauseOthers, becauseOthers, becauseTold}},

		{"edge: first, and again", Rule{}, func(c *Config) { c.Edge = []EdgeBan{{Until: 10 * time.Second}} },
			[]step{trip(0), trip(50 * ms), trip(9 * time.Second)}, []string{becauseOthers, becauseOthers, becauseTold}},
		{"edge without a time: again at once, and later", Rule{},
			func(c *Config) { c.Edge = []EdgeBan{{Until: 10 * time.Second, Silent: true}} },
			[]step{trip(0), trip(100 * ms), trip(1200 * ms)}, []string{becauseOthers, becauseTold, becauseOthers}},

		{"the limit was lowered, and then an answer has shown it",
			Rule{Quota: Fixed(4, time.Second), Changes: []Change{{At: 10 * time.Second, Quota: Fixed(2, time.Second)}}}, plain,
			[]step{
				trip(0), trip(10 * time.Second), trip(10 * time.Second), trip(10 * time.Second),
				trip(12 * time.Second), trip(12 * time.Second), trip(12 * time.Second),
			}, []string{becauseChanged, becauseOwn}},
		{"the hash moved to a smaller bucket",
			Rule{Hash: "a", Quota: Fixed(4, time.Second),
				Changes: []Change{{At: 10 * time.Second, Quota: Fixed(2, time.Second), Hash: "b"}}}, plain,
			[]step{trip(0), trip(10 * time.Second), trip(10 * time.Second), trip(10 * time.Second), trip(10_100 * ms)},
			[]string{becauseChanged, becauseTold}},
		{"the hash flips", Rule{Quota: Fixed(1, time.Second), Vary: Alternate("a", "b")}, plain,
			[]step{trip(0), trip(100 * ms), trip(110 * ms)}, []string{becauseTold}},
		{"the hash flips, unread", Rule{Quota: Fixed(1, time.Second), Vary: Alternate("a", "b")}, plain,
			[]step{trip(0), trip(1), trip(2)}, []string{becauseUnpredictable}},

		{"remaining was a lie", lie(func(s *State) { s.Remaining = 5; s.Limit = 6 }), plain,
			[]step{trip(0), trip(100 * ms), trip(100 * ms)}, []string{becauseFalsified}},
		{"remaining alone was a lie", lie(func(s *State) { s.Remaining = 2 }), plain,
			[]step{trip(0), trip(100 * ms), trip(100 * ms)}, []string{becauseFalsified}},
		{"limit alone was a lie", lie(func(s *State) { s.Limit = 6 }), plain,
			[]step{trip(0), trip(100 * ms), trip(100 * ms)}, []string{becauseFalsified}},
		{"reset-after was a lie", lie(func(s *State) { s.ResetAfter = 100 * ms }), plain,
			[]step{trip(0), trip(200 * ms), trip(201 * ms)}, []string{becauseFalsified}},
		{"a true answer has come since", lie(func(s *State) { s.Limit = 6 }), plain,
			[]step{trip(0), trip(100 * ms), trip(200 * ms), trip(2 * time.Second), trip(2 * time.Second), trip(2 * time.Second)},
			[]string{becauseTold, becauseOwn}},
		{"a true answer has come since, a moment after a lie",
			Rule{Quota: Fixed(4, time.Second), Faults: []Fault{
				{Nth: []int{2}, State: func(s State) State { s.Limit = 6; return s }},
			}}, plain,
			[]step{trip(0), trip(900 * ms), trip(940 * ms), trip(1200 * ms), trip(1200 * ms), trip(1200 * ms), trip(1200 * ms),
				trip(1200 * ms)}, []string{becauseFalsified}},
		{"less than the truth is no excuse", lie(func(s *State) { s.Limit = 1; s.Remaining = 0 }), plain,
			[]step{trip(0), trip(10 * ms), trip(10 * ms)}, []string{becauseOwn}},
		{"the first answer of a window is stale, and no other was read",
			Rule{Quota: Fixed(3, time.Second), Faults: []Fault{StaleFirst()}}, plain,
			[]step{trip(0), trip(100 * ms), trip(110 * ms), trip(120 * ms)}, []string{becauseFalsified}},
		{"the first answer of a window is stale, and a later one is true",
			Rule{Quota: Fixed(3, time.Second), Faults: []Fault{StaleFirst()}}, plain,
			[]step{trip(0), trip(100 * ms), trip(200 * ms), trip(201 * ms), trip(2 * time.Second), trip(2100 * ms),
				trip(2200 * ms), trip(2201 * ms)},
			[]string{becauseTold, becauseTold}},
		{"a request sent after a lie has arrived earlier",
			Rule{Quota: Fixed(3, time.Second), Faults: []Fault{StaleFirst()}}, plain,
			[]step{trip(0), trip(110 * ms), trip(120 * ms), {sent: 90 * ms, processed: 180 * ms, answered: 200 * ms}},
			[]string{becauseFalsified}},
		{"a request sent after a lie has arrived later",
			Rule{Quota: Fixed(3, time.Second), Faults: []Fault{StaleFirst()}}, plain,
			[]step{trip(0), trip(10 * ms), trip(20 * ms), {sent: 90 * ms, processed: 100 * ms, answered: 200 * ms},
				trip(105 * ms)}, []string{becauseOwn, becauseFalsified}},
		{"reset is compared with Date", Rule{Quota: Fixed(2, time.Second), Faults: []Fault{ResetAlone()}}, plain,
			[]step{trip(0), trip(100 * ms), trip(200 * ms)}, []string{becauseTold}},
		{"reset was cut to whole seconds", Rule{Quota: Fixed(2, 1500*ms), Faults: []Fault{WholeReset(false)}}, plain,
			[]step{trip(0), trip(100 * ms), trip(200 * ms)}, []string{becauseFalsified}},
		{"headers withheld from the beginning", Rule{Quota: Fixed(2, time.Second), Faults: []Fault{NoHeaders()}}, plain,
			[]step{trip(0), trip(100 * ms), trip(100 * ms)}, []string{becauseQuiet}},
		{"garbage is no headers", Rule{Quota: Fixed(2, time.Second), Faults: []Fault{Garbage("NaN")}}, plain,
			[]step{trip(0), trip(100 * ms), trip(100 * ms)}, []string{becauseQuiet}},
		{"headers withheld once are no excuse later",
			Rule{Quota: Fixed(2, time.Second), Faults: []Fault{{Nth: []int{2}, Drop: limitHeaders}}}, plain,
			[]step{trip(0), trip(100 * ms), trip(200 * ms)}, []string{becauseTold}},
		{"headers withheld once are no excuse in another window",
			Rule{Quota: Fixed(2, time.Second), Faults: []Fault{{Nth: []int{2}, Drop: limitHeaders}}}, plain,
			[]step{trip(0), trip(100 * ms), trip(2 * time.Second), trip(2 * time.Second), trip(2 * time.Second)},
			[]string{becauseOwn}},
		{"an unread answer, and only the middle of a window has been seen",
			Rule{Quota: Fixed(2, time.Second), Faults: []Fault{{Nth: []int{1, 3}, Connection: ConnectionLostAfter}}}, plain,
			[]step{trip(0), trip(500 * ms), trip(1200 * ms), trip(1900 * ms), trip(1901 * ms)}, []string{becauseQuiet}},
		{"an unread answer, and a whole window has been seen",
			Rule{Quota: Fixed(2, time.Second), Faults: []Fault{{Nth: []int{3}, Connection: ConnectionLostAfter}}}, plain,
			[]step{trip(0), trip(500 * ms), trip(1200 * ms), trip(1900 * ms), trip(1901 * ms)}, []string{becauseOwn}},
		{"a server error without headers is no excuse",
			Rule{Quota: Fixed(2, time.Second), Faults: []Fault{{Nth: []int{1}, Status: 500}}}, plain,
			[]step{trip(0), trip(100 * ms), trip(100 * ms)}, []string{becauseOwn}},
		{"retry-after was a lie, in header and body",
			Rule{Quota: Fixed(1, 10*time.Second),
				Faults: []Fault{retryInBody(time.Second), {Set: map[string]string{"Retry-After": "1"}}}}, plain,
			[]step{others(0, 1), trip(0), trip(1050 * ms), trip(2200 * ms)},
			[]string{becauseOthers, becauseTold, becauseFalsified}},
		{"header 1, body 9.95: less than 1 is certainly wrong",
			Rule{Quota: Fixed(1, 10*time.Second), Faults: []Fault{ShortHeaders()}}, plain,
			[]step{others(0, 1), trip(0), trip(1050 * ms), trip(2200 * ms)},
			[]string{becauseOthers, becauseTold, becauseFalsified}},
		{"header 10, body 0.25: the shorter time may be true",
			Rule{Quota: Fixed(1, 10*time.Second), Faults: []Fault{retryInBody(250 * ms)}}, plain,
			[]step{others(0, 1), trip(0), trip(349 * ms), trip(350 * ms)},
			[]string{becauseOthers, becauseTold, becauseFalsified}},
		{"a false time, and then a true one",
			Rule{Quota: Fixed(1, 3*time.Second), Faults: []Fault{retryInBody(250*ms, 1)}}, plain,
			[]step{others(0, 1), trip(0), trip(400 * ms), trip(500 * ms)},
			[]string{becauseOthers, becauseFalsified, becauseTold}},
		{"header until the bucket is empty, body until one place is free: the body's time",
			Rule{Quota: Sliding(2, 10*time.Second), Faults: []Fault{HeadersUntilFull()}}, plain,
			[]step{others(0, 1), others(4*time.Second, 1), trip(5 * time.Second), others(10*time.Second, 1), trip(10_049 * ms),
				trip(10_050 * ms)},
			[]string{becauseOthers, becauseTold, becauseOthers}},
		{"body in milliseconds: the header's time, or the true one",
			Rule{Quota: Fixed(1, 900*ms), Faults: []Fault{MillisecondBodies(false)}}, plain,
			[]step{others(0, 1), trip(0), others(910*ms, 1), trip(949 * ms), trip(950 * ms)},
			[]string{becauseOthers, becauseTold, becauseOthers}},
		{"body in milliseconds, header with decimals",
			Rule{Quota: Fixed(1, 900*ms), Faults: []Fault{MillisecondBodies(true)}}, plain,
			[]step{others(0, 1), trip(0), others(910*ms, 1), trip(949 * ms), trip(950 * ms)},
			[]string{becauseOthers, becauseTold, becauseOthers}},
		{"the header comes first: its time is known at once",
			Rule{Quota: Fixed(1, 9*time.Second), Faults: []Fault{{BodyDelay: 3 * time.Second}}}, plain,
			[]step{others(0, 1), trip(0), trip(100 * ms)}, []string{becauseOthers, becauseTold}},
		{"only the body names a time, and never comes: not within a second",
			Rule{Quota: Sliding(1, 9*time.Second), Faults: []Fault{
				{Stall: StallHalfway, Drop: []string{"Retry-After"}},
			}}, plain,
			[]step{others(0, 1), trip(0), trip(1099 * ms), trip(2199 * ms)},
			[]string{becauseOthers, becauseTold, becauseOthers}},
		{"without a scope a 429 is still the bucket's",
			Rule{Quota: Fixed(1, 10*time.Second), Faults: []Fault{WithoutScope()}}, plain,
			[]step{others(0, 1), trip(0), trip(9 * time.Second)}, []string{becauseOthers, becauseTold}},
		{"no time in a 429: the limit headers have it",
			Rule{Quota: Fixed(1, 10*time.Second), Faults: []Fault{WithoutRetryAfter()}}, plain,
			[]step{others(0, 1), trip(0), trip(9 * time.Second)}, []string{becauseOthers, becauseTold}},
		{"no time and no end of a window: not within a second",
			Rule{Quota: Sliding(1, 10*time.Second), Faults: []Fault{WithoutRetryAfter()}}, plain,
			[]step{others(0, 1), trip(0), trip(1099 * ms), trip(2199 * ms)},
			[]string{becauseOthers, becauseTold, becauseOthers}},
	}
	verdictOf := map[string]Verdict{
		becauseTold: Avoidable, becauseOwn: Avoidable, becauseOwnPace: Avoidable, becauseOthers: Unavoidable,
		becauseChanged: Excused, becauseFalsified: Excused, becauseQuiet: Excused, becauseUnpredictable: Excused,
		becauseKind: Excused, becauseLate: Excused, becauseTried: Excused, becauseLateTold: Avoidable,
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := messages(t, test.rule, test.config)
			verdicts, reasons := tell(w, test.story...)
			require.Equal(t, test.want, reasons)
			avoidable, excused := 0, 0
			for i, reason := range test.want {
				require.Equal(t, verdictOf[reason], verdicts[i])
				switch verdicts[i] {
				case Avoidable:
					avoidable++
				case Excused:
					excused++
				}
			}
			report := w.Report()
			assert.Equal(t, avoidable, report.Avoidable.Total())
			assert.Equal(t, excused, report.Excused.Total())
			assert.Equal(t, len(test.want), report.Refused.Total())
		})
	}
}

func TestAnAnswerThatNeverCameTeachesNothing(t *testing.T) {
	t.Parallel()
	w := messages(t, Rule{Quota: Fixed(3, time.Second)})
	_, reasons := tell(w, others(0, 3), step{sent: 1, processed: 2}, trip(100*ms))
	assert.Equal(t, []string{becauseOthers, becauseOthers}, reasons)
}

func TestToleranceAllowsForTheWayToTheClientsEyes(t *testing.T) {
	t.Parallel()
	for tolerance, want := range map[time.Duration]string{0: becauseTold, 19 * ms: becauseTold, 21 * ms: becauseOthers} {
		w := messages(t, Rule{Quota: Fixed(3, time.Second)}, func(c *Config) { c.Tolerance = tolerance })
		_, reasons := tell(w, others(0, 2), trip(0), trip(120*ms))
		assert.Equal(t, []string{want}, reasons, tolerance)
	}
}

// If a client is alone at the server and the server has no faults, every refusal by a bucket or the global limit is
// avoidable.
func TestAClientThatIsAloneCanAvoidEverything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		quota := drawQuota(t).punctual()
		quota.Extend = 0                           // the client may not have read yet that a refusal extends the window
		quota.NamesNext, quota.Lags = false, false // such buckets excuse some refusals
		w, err := NewWorld(start, Config{
			Rules: []Rule{{Path: "/channels/**", Quota: quota}},
			Global: Aligned(rapid.IntRange(1, 10).Draw(t, "global"), time.Second,
				time.Duration(rapid.IntRange(0, 999).Draw(t, "phase"))*ms),
		})
		require.NoError(t, err)
		now := start
		for range rapid.IntRange(1, 100).Draw(t, "requests") {
			now = now.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "step")) * ms)
			request := post
			request.SentAt = now.Add(-time.Duration(rapid.IntRange(0, 100).Draw(t, "in")) * ms)
			response := w.Handle(now, request)
			w.Deliver(response, now.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "out"))*ms))
		}
		report := w.Report()
		require.Equal(t, report.Refused, report.Avoidable)
	})
}

// obey returns the wait that an answer certainly asks for. On a 429 of the bucket itself, Retry-After names the time
// until one place is free; otherwise only the reset does.
func obey(response *Response) (wait time.Duration) {
	duration := func(seconds float64) time.Duration { return time.Duration(math.Ceil(seconds * float64(time.Second))) }
	stated, told := statedRetry(response)
	if response.Class != ClassNone {
		wait = duration(stated)
		if !told {
			wait = time.Second
		}
	}
	if reset, ok := readNumber(response.Header.Get("X-RateLimit-Reset-After")); ok && (response.Class != ClassUser || !told) {
		wait = max(wait, duration(reset))
	}
	return wait
}

// Other clients use the limits. A client that sends one request at a time and waits as long as answers ask for must
// never be blamed, however the server writes its 429s.
func TestAnObedientClientIsNeverBlamed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		quota := drawQuota(t)
		quota.Extend = min(quota.Extend, 40*ms) // other clients must not be able to prolong a block for ever
		w, err := NewWorld(start, Config{
			Rules: []Rule{{
				Path: "/channels/**", Quota: quota,
				Shared: &SharedLimit{Quota: Sliding(3, 4*time.Second)}, SubLimits: []SubLimit{{Quota: Fixed(4, 5*time.Second)}},
			}},
			Global: Aligned(2, time.Second, 0),
			Foreign: []ForeignUse{
				{Request: post, Every: time.Duration(rapid.IntRange(50, 2000).Draw(t, "foreign")) * ms},
			},
			Edge: []EdgeBan{{From: 20 * time.Second, Until: 25 * time.Second, Silent: rapid.Bool().Draw(t, "silent")}},
			Faults: rapid.SliceOfN(rapid.SampledFrom([]Fault{
				WithoutScope(), MillisecondBodies(false), MillisecondBodies(true), HeadersUntilFull(), ShortHeaders(),
				WithoutRetryAfter(),
			}), 0, 2).Draw(t, "faults"),
		})
		require.NoError(t, err)
		now, last := start, start.Add(-time.Hour)
		for range 60 {
			in := time.Duration(rapid.IntRange(0, 400).Draw(t, "in")) * ms
			out := time.Duration(rapid.IntRange(0, 400).Draw(t, "out")) * ms
			if pace := last.Add(time.Second); now.Before(pace) {
				now = pace // one request per second keeps a limit of two per second in any phase
			}
			request := post
			request.SentAt, last = now, now.Add(in)
			response := w.Handle(now.Add(in), request)
			now = now.Add(in + out)
			w.Deliver(response, now)
			now = now.Add(obey(response) + quota.Lateness.By + quota.Lateness.Random)
		}
		for _, refusal := range w.Refusals() {
			require.NotEqual(t, Avoidable, refusal.Verdict, "%+v", refusal)
		}
	})
}
