package limitertest

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/ratelight/ratelight/httpclient"
)

// Run puts the limiters that newLimiter makes through all cases, as subtests of t that run in parallel. newLimiter is called once
// for each case, with the case's own t, and must return a limiter that is ready for use and knows nothing; what is to be done
// when the case is over belongs into t.Cleanup. It may be called by several goroutines at once.
func Run(t *testing.T, newLimiter func(t *testing.T) httpclient.Limiter, options ...Option) {
	t.Helper()
	s := settingsOf(options)
	for _, c := range cases() {
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

// skipper is a *testing.T in a bubble. That one cannot skip the test around it, so it leaves word.
type skipper struct {
	*testing.T
	reason *string
}

func (s *skipper) Skipf(format string, arguments ...any) {
	*s.reason = fmt.Sprintf(format, arguments...)
	s.SkipNow()
}

// inTime runs f in a bubble, unless it is to run in real time.
func (s *settings) inTime(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	if s.realTime {
		f(t)
		return
	}
	synctest.Test(t, f)
}

// testCase is one situation.
type testCase struct {
	name  string
	why   string  // it matters, for the text of a failure
	needs Promise // without it the case is skipped; empty if every limiter has to pass
	one   bool    // it is skipped without OneMind, too
	long  bool    // too long for real time
	run   func(t *trial)
}

// cases returns all there are.
func cases() []testCase {
	var all []testCase
	for _, some := range [][]testCase{
		argumentCases(), leaseCases(), orderCases(), cancelCases(), momentCases(), deadlineCases(), refusalCases(), holdCases(),
		discoveryCases(), firstAnswerCases(), pairCases(), troubleCases(), windowCases(), globalCases(), foreignCases(),
		changeCases(), serverCases(), memoryCases(), closeCases(),
	} {
		all = append(all, some...)
	}
	return all
}

// perform runs the case with a limiter of its own and tells r what it finds.
func (c *testCase) perform(t *testing.T, r reporter, newLimiter func(t *testing.T) httpclient.Limiter, s settings) {
	switch {
	case s.without[c.needs]:
		r.Skipf("the limiter does not promise %s", c.needs)
		return
	case c.one && s.without[OneMind]:
		r.Skipf("the limiter does not promise %s", OneMind)
		return
	case c.long && s.realTime:
		r.Skipf("this would take too long in real time")
		return
	}
	trial := newTrial(r, s, c.why)
	trial.limiter = newLimiter(t)
	if trial.limiter == nil {
		t.Fatal("newLimiter returned nil: expected a limiter that is ready for use")
	}
	defer trial.finish()
	c.run(trial)
}
