package limitertest

import (
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
			trial := c.perform(t, newLimiter, s)
			for _, failure := range trial.failures {
				t.Error(failure)
			}
			if trial.skipped != "" {
				t.Skip(trial.skipped)
			}
		})
	}
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

// play adds a case that consists of a script.
func (s *suite) play(name, why, script string, needs ...Promise) {
	s.add(name, why, func(t *trial) { t.play(script) }, needs...)
}

// cases returns all cases.
func cases() []testCase {
	var s suite
	for _, add := range []func(){
		s.arguments, s.leases, s.order, s.cancelling, s.deadlines, s.refusals, s.holds, s.discovery, s.firstAnswers, s.pairs,
		s.troubles, s.windows, s.global, s.foreign, s.changes, s.servers, s.memory, s.closing,
	} {
		add()
	}
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

// perform runs the case with a new limiter, in a bubble unless WithRealTime was given.
func (c *testCase) perform(t *testing.T, newLimiter func(t *testing.T) httpclient.Limiter, s settings) *trial {
	t.Helper()
	trial := &trial{settings: s, name: c.name, why: c.why, named: make(map[string]*call)}
	inTime := synctest.Test
	if s.realTime {
		inTime = func(t *testing.T, f func(t *testing.T)) { f(t) }
	}
	inTime(t, func(t *testing.T) {
		if trial.limiter = newLimiter(t); trial.limiter == nil {
			t.Fatal("newLimiter returned nil: expected a limiter that is ready for use")
		}
		trial.perform(c)
	})
	return trial
}
