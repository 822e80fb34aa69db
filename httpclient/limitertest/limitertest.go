package limitertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ratelight/ratelight/httpclient"
)

// Core tests what every limiter must do to keep to Discord's limits: it causes no avoidable 429, waits as long as a 429
// says and then continues, and its waits end with their contexts. Even a limiter that sends one request at a time can
// pass. The cases are subtests of t that run in parallel.
//
// newLimiter is called once for each case, with the case's t. It must return a new limiter that is ready for use,
// without any state. To close the limiter after the case, use t.Cleanup. newLimiter must be safe for concurrent use.
func Core(t *testing.T, newLimiter func(t *testing.T) httpclient.Limiter, options ...Option) {
	t.Helper()
	run(t, coreCases(), newLimiter, append([]Option{WithThroughput(0)}, options...))
}

// Strict runs all cases, including those of Core. A limiter that passes keeps all promises of package buckets. Besides
// what Core requires, it is fast, delays no more requests than necessary, sends requests in the order of arrival, and
// rejects at once the requests that would wait too long. newLimiter is as in Core.
func Strict(t *testing.T, newLimiter func(t *testing.T) httpclient.Limiter, options ...Option) {
	t.Helper()
	run(t, cases(), newLimiter, options)
}

func run(t *testing.T, cases []testCase, newLimiter func(t *testing.T) httpclient.Limiter, options []Option) {
	s := settingsOf(options)
	for _, c := range cases {
		if len(s.only) > 0 && !c.named(s.only) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			skipped := ""
			s.inTime(t, func(t *testing.T) { c.perform(t, &skipper{t, &skipped}, newLimiter, s) })
			if skipped != "" {
				t.Skip(skipped)
			}
		})
	}
}

// skipper is the *testing.T of a bubble. Its Skipf ends the code in the bubble and stores the reason for run, because
// the test around the bubble can only be skipped from outside.
type skipper struct {
	*testing.T
	reason *string
}

func (s *skipper) Skipf(format string, arguments ...any) {
	*s.reason = fmt.Sprintf(format, arguments...)
	s.SkipNow()
}

// inTime runs f in a bubble, or outside of one if WithRealTime was given.
func (s *settings) inTime(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	if s.realTime {
		f(t)
		return
	}
	synctest.Test(t, f)
}

// testCase is one situation that a limiter must handle.
type testCase struct {
	name  string
	why   string // why the case matters, part of each failure's text
	run   func(t *trial)
	needs []Promise // the case is skipped if the limiter lacks one of these
}

// suite is a list of cases.
type suite []testCase

func (s *suite) add(name, why string, run func(t *trial), needs ...Promise) {
	*s = append(*s, testCase{name, why, run, needs})
}

// cases returns all cases.
func cases() []testCase {
	var s suite
	s.arguments()
	s.leases()
	s.order()
	s.cancelling()
	s.deadlines()
	s.refusals()
	s.holds()
	s.discovery()
	s.firstAnswers()
	s.pairs()
	s.troubles()
	s.windows()
	s.global()
	s.foreign()
	s.changes()
	s.servers()
	s.memory()
	s.closing()
	return s
}

// core lists prefixes of the names of Core's cases. The other cases test speed, order and unnecessary waits.
var core = []string{
	"arguments/no context", "arguments/no request", "arguments/no route", "arguments/context that has ended", "lease/",
	"cancel/", "close/", "deadline/after the wait", "deadline/of a wait", "refusal/how long/", "refusal/what waits/",
	"hold/never shortened/", "refusal/at the edge", "refusal/for thirty years", "discovery/cold burst",
	"discovery/a second route", "first answer/", "trouble/server errors", "trouble/lost", "trouble/no headers",
	"trouble/slow answers", "trouble/all of the first", "window/fixed/", "window/sliding/", "window/leaky/",
	"global limit/seconds", "foreign/costs", "foreign/steady", "change/of the hash while", "change/of the limit",
	"memory/",
}

func coreCases() []testCase {
	return slices.DeleteFunc(cases(), func(c testCase) bool { return !c.named(core) })
}

// named reports whether the name of the case has one of these prefixes.
func (c *testCase) named(beginnings []string) bool {
	return slices.ContainsFunc(beginnings, func(beginning string) bool { return strings.HasPrefix(c.name, beginning) })
}

// perform runs the case with a new limiter and reports the findings to r.
func (c *testCase) perform(t *testing.T, r reporter, newLimiter func(t *testing.T) httpclient.Limiter, s settings) {
	for _, promise := range c.needs {
		if s.without[promise] {
			r.Skipf("skipped, because the case needs this: %s", promise)
			return
		}
	}
	trial := newTrial(r, s, c.why)
	trial.limiter = newLimiter(t)
	if trial.limiter == nil {
		t.Fatal("newLimiter returned nil: expected a limiter that is ready for use")
	}
	defer trial.finish()
	c.run(trial)
}
