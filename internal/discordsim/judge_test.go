package discordsim

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// retryInBody returns a fault that replaces retry_after in the bodies of 429s. nth, if given, lists the numbers of the
// affected requests.
func retryInBody(d time.Duration, nth ...int) Fault {
	f := editRefusals(func(_ *Response, body *limitBody) {
		stated := d.Seconds()
		body.RetryAfter = &stated
	})
	f.Nth = nth
	return f
}

// rule returns a rule with the given quota and faults.
func rule(quota Quota, faults ...Fault) Rule { return Rule{Quota: quota, Faults: faults} }

func TestVerdicts(t *testing.T) {
	t.Parallel()
	three, threeSliding := rule(Fixed(3, second)), rule(Sliding(3, second))
	shared := Rule{Quota: Fixed(9, second), Shared: &SharedLimit{Quota: Fixed(1, 10*second)}}
	flipping := Rule{Quota: Fixed(1, second), Vary: Alternate("a", "b")}
	lie := func(f func(*State)) Rule {
		return rule(Fixed(2, second), Fault{Nth: []int{1}, State: func(s State) State { f(&s); return s }})
	}
	for _, test := range []struct {
		name  string
		rule  Rule
		story story
		want  string
	}{
		{"a burst on an unknown bucket", three, "0x4", "own"},
		{"one too many in a known window", three, "0 100x3", "told"},
		{"an answer had named none remaining", three, "0 100x2 200", "told"},
		{"sent a moment before the answer came", three, "0 1 2 99", "own"},
		{"others took the last places, and no answer said so", three, "0 others@60x2 100", "others"},
		{"others took the last places, and an answer said so", three, "others@0x2 0 100", "told"},
		{"one place was left and two were taken", three, "others@0 0 100 101", "told"},
		{"one place was left, and a request in flight took it", three, "others@0 0 60 101", "others"},
		{"one place was left, and others were quicker", three, "others@0 0 others@120 100", "others"},
		{"the window that the answer named is over", three, "others@0x2 0 others@1001x3 1060", "others"},
		{"sent a little before the window has certainly ended", three, "others@0x2 0 others@1001x3 1049", "told"},
		{"after a 429, its time not over", three, "others@0x3 0 100 1049", "others told"},
		{"the precise time counts, not the whole second of the header", rule(Fixed(3, 300*ms)),
			"others@0x3 0 others@360x3 400", "others others"},
		{"a sliding place came back and was taken by others", threeSliding,
			"0 others@150x2 200 others@1050 others@1160x2 1300", "others others"},
		{"a sliding place is not back yet", threeSliding, "0 100x2 600", "own"},
		{"a log that names the next place: it looks like a window, which excuses one window",
			rule(SlidingNext(2, second)),
			"0 400 1100 1101 1102", "kind own"},
		{"a log that names the next place: too early for any kind", rule(SlidingNext(2, second)), "0 100 900", "own"},
		{"a log that names the next place: answers have shown that it is no window", rule(SlidingNext(2, second)),
			"0 400 1100 1500 1501", "own"},
		{"a log that names the last place: it does not look like a window", rule(Sliding(2, second)),
			"0 400 1100 1101", "own"},
		{"a block that each refusal extends: again before its time", rule(Extending(1, second, 2*second)),
			"others@0 0 2949 5100", "others told"},
		{"a block that was extended by a refusal not yet read", rule(Extending(1, second, 2*second)),
			"0 900/950/1500 1100 1500", "told others told"},
		{"shared: the first refusal", shared, "0x2", "others"},
		{"shared: again before its time", shared, "0x2 100", "others told"},
		{"shared: again, sent before the refusal was read", shared, "0x2 99", "others others"},
		{"shared: again after its time, but others were quicker", shared, "0x2 others@10060 10100", "others others"},
		{"the limit was lowered, and then an answer has shown it",
			Rule{Quota: Fixed(4, second), Changes: []Change{{At: 10 * second, Quota: Fixed(2, second)}}},
			"0 10000x3 12000x3", "changed own"},
		{"the hash moved to a smaller bucket",
			Rule{Hash: "a", Quota: Fixed(4, second), Changes: []Change{{At: 10 * second, Quota: Fixed(2, second), Hash: "b"}}},
			"0 10000x3 10100", "changed told"},
		{"the hash flips", flipping, "0 100 110", "told"},
		{"the hash flips, unread", flipping, "0 1 2", "unforeseen"},
		{"remaining was a lie", lie(func(s *State) { s.Remaining = 5; s.Limit = 6 }), "0 100x2", "falsified"},
		{"remaining alone was a lie", lie(func(s *State) { s.Remaining = 2 }), "0 100x2", "falsified"},
		{"limit alone was a lie", lie(func(s *State) { s.Limit = 6 }), "0 100x2", "falsified"},
		{"reset-after was a lie", lie(func(s *State) { s.ResetAfter = 100 * ms }), "0 200 201", "falsified"},
		{"a true answer has come since", lie(func(s *State) { s.Limit = 6 }), "0 100 200 2000x3", "told own"},
		{"a true answer has come since, a moment after a lie",
			rule(Fixed(4, second), Fault{Nth: []int{2}, State: func(s State) State { s.Limit = 6; return s }}),
			"0 900 940 1200x5", "falsified"},
		{"less than the truth is no excuse", lie(func(s *State) { s.Limit = 1; s.Remaining = 0 }), "0 10x2", "own"},
		{"the first answer of a window is stale, and no other was read", rule(Fixed(3, second), StaleFirst()),
			"0 100 110 120", "falsified"},
		{"the first answer of a window is stale, and a later one is true", rule(Fixed(3, second), StaleFirst()),
			"0 100 200 201 2000 2100 2200 2201", "told told"},
		{"a request sent after a lie has arrived earlier", rule(Fixed(3, second), StaleFirst()),
			"0 110 120 90/180/200", "falsified"},
		{"a request sent after a lie has arrived later", rule(Fixed(3, second), StaleFirst()),
			"0 10 20 90/100/200 105", "own falsified"},
		{"reset is compared with Date", rule(Fixed(2, second), ResetAlone()), "0 100 200", "told"},
		{"reset was cut to whole seconds", rule(Fixed(2, 1500*ms), WholeReset(false)), "0 100 200", "falsified"},
		{"headers withheld from the beginning", rule(Fixed(2, second), NoHeaders()), "0 100x2", "quiet"},
		{"garbage is no headers", rule(Fixed(2, second), Garbage("NaN")), "0 100x2", "quiet"},
		{"headers withheld once are no excuse later",
			rule(Fixed(2, second), Fault{Nth: []int{2}, Drop: limitHeaders}),
			"0 100 200", "told"},
		{"headers withheld once are no excuse in another window",
			rule(Fixed(2, second), Fault{Nth: []int{2}, Drop: limitHeaders}),
			"0 100 2000x3", "own"},
		{"an unread answer, and only the middle of a window has been seen",
			rule(Fixed(2, second), Fault{Nth: []int{1, 3}, Connection: ConnectionLostAfter}),
			"0 500 1200 1900 1901", "quiet"},
		{"an unread answer, and a whole window has been seen",
			rule(Fixed(2, second), Fault{Nth: []int{3}, Connection: ConnectionLostAfter}),
			"0 500 1200 1900 1901", "own"},
		{"a server error without headers is no excuse", rule(Fixed(2, second), Fault{Nth: []int{1}, Status: 500}),
			"0 100x2", "own"},
		{"retry-after was a lie, in header and body",
			rule(Fixed(1, 10*second), retryInBody(second), Fault{Set: map[string]string{"Retry-After": "1"}}),
			"others@0 0 1050 2200", "others told falsified"},
		{"header 1, body 9.95: less than 1 is certainly wrong", rule(Fixed(1, 10*second), ShortHeaders()),
			"others@0 0 1050 2200", "others told falsified"},
		{"header 10, body 0.25: the shorter time may be true", rule(Fixed(1, 10*second), retryInBody(250*ms)),
			"others@0 0 349 350", "others told falsified"},
		{"a false time, and then a true one", rule(Fixed(1, 3*second), retryInBody(250*ms, 1)),
			"others@0 0 400 500", "others falsified told"},
		{"header until the bucket is empty, body until one place is free: the body's time",
			rule(Sliding(2, 10*second), HeadersUntilFull()),
			"others@0 others@4000 5000 others@10000 10049 10050", "others told others"},
		{"body in milliseconds: the header's time, or the true one",
			rule(Fixed(1, 900*ms), MillisecondBodies(false)),
			"others@0 0 others@910 949 950", "others told others"},
		{"body in milliseconds, header with decimals", rule(Fixed(1, 900*ms), MillisecondBodies(true)),
			"others@0 0 others@910 949 950", "others told others"},
		{"the header comes first: its time is known at once",
			rule(Fixed(1, 9*second), Fault{BodyDelay: 3 * second}),
			"others@0 0 100", "others told"},
		{"only the body names a time, and never comes: not within a second",
			rule(Sliding(1, 9*second), Fault{Stall: StallHalfway, Drop: []string{"Retry-After"}}),
			"others@0 0 1099 2199", "others told others"},
		{"without a scope a 429 is still the bucket's", rule(Fixed(1, 10*second), WithoutScope()),
			"others@0 0 9000", "others told"},
		{"no time in a 429: the limit headers have it", rule(Fixed(1, 10*second), WithoutRetryAfter()),
			"others@0 0 9000", "others told"},
		{"no time and no end of a window: not within a second", rule(Sliding(1, 10*second), WithoutRetryAfter()),
			"others@0 0 1099 2199", "others told others"},
		{"an answer that never came teaches nothing", three, "others@0x3 1/2 100", "others others"},
	} {
		tell(t, messages(t, test.rule), nil, test.story, test.want, test.name)
	}
}

func TestVerdictsOfTheConfiguration(t *testing.T) {
	t.Parallel()
	tolerance := func(d time.Duration) func(*Config) { return func(c *Config) { c.Tolerance = d } }
	globalOf3 := globalOf(Aligned(3, second, 0))
	for _, test := range []struct {
		name   string
		config func(*Config)
		story  story
		want   string
	}{
		{"global: too many in one window", globalOf3, "0! 1! 2! 3!", "own"},
		{"global: used up by others", globalOf3, "others@0x2 1! 2!", "others"},
		{"global: too fast in another phase, which others reveal", globalOf3,
			"900! 901! 1001! others@1002x2 1003!", "pace"},
		{"global: again before its time", globalOf3, "others@0x3 1! 999!", "others told"},
		{"global: a block, and requests during it",
			func(c *Config) {
				c.Global, c.Blocks = Aligned(1, second, 0), []GlobalBlock{{From: 500 * ms, Until: 9 * second}}
			},
			"0 600 699 700 9000", "others others told"},
		{"edge: first, and again", func(c *Config) { c.Edge = []EdgeBan{{Until: 10 * second}} },
			"0 50 9000", "others others told"},
		{"edge without a time: again at once, and later",
			func(c *Config) { c.Edge = []EdgeBan{{Until: 10 * second, Silent: true}} },
			"0 100 1200", "others told others"},
		{"no tolerance", tolerance(0), "others@0x4 0 120", "told"},
		{"the answer was read before the tolerance was over", tolerance(19 * ms), "others@0x4 0 120", "told"},
		{"the answer may not have been read yet", tolerance(21 * ms), "others@0x4 0 120", "others"},
		{"an answer that may have been read named a new window with room", tolerance(21 * ms),
			"others@0x2 0 960/1005/1010 960/1006/1100 others@1020x3 1015", "others"},
	} {
		tell(t, messages(t, rule(Fixed(5, second)), test.config), nil, test.story, test.want, test.name)
	}
}

// If no other client uses the server and the server has no faults, every refusal by a bucket or by the global limit
// must count as avoidable.
func TestAClientThatIsAloneCanAvoidEverything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		quota := drawQuota(t).punctual()
		quota.Extend = 0                           // the client may not yet know that a refusal has extended the window
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

// obey returns how long an answer certainly asks the client to wait. In a 429 of the bucket itself, Retry-After is the
// time until one place is free. In other answers only the reset says when a place is free.
func obey(response *Response) (wait time.Duration) {
	duration := func(seconds float64) time.Duration { return time.Duration(math.Ceil(seconds * float64(time.Second))) }
	stated, told := statedRetry(response)
	if response.Class != ClassNone {
		wait = duration(stated)
		if !told {
			wait = time.Second
		}
	}
	if reset, ok := readNumber(response.Header.Get(headerResetAfter)); ok && (response.Class != ClassUser || !told) {
		wait = max(wait, duration(reset))
	}
	return wait
}

// Other clients use the same limits. A client that sends one request at a time, and waits as long as answers ask, must
// never be blamed, whatever form the server gives its 429s.
func TestAnObedientClientIsNeverBlamed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		quota := drawQuota(t)
		quota.Extend = min(quota.Extend, 40*ms) // otherwise other clients could prolong a block for ever
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
				now = pace // with one request per second, the client keeps a limit of two per second in any phase
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
