package processes

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// every is a time each period, from one time to another.
func every(period, from, to time.Duration) (at []time.Duration) {
	for ; from < to; from += period {
		at = append(at, from)
	}
	return at
}

// cost accounts for an accident that touches no bucket in particular.
func cost(a accident, h happenings, next time.Duration) Accident {
	h.period = time.Second
	return account(a, h, &h, nil, next)
}

func TestAccidentsCostWhatDidNotComeThrough(t *testing.T) {
	t.Parallel()
	const s = time.Second
	h := happenings{
		served:  slices.Concat(every(s/10, 0, 5*s), every(s/10, 7*s, 13*s), every(s/10, 15*s+s/2, 20*s)),
		refused: []refusal{{6 * s, "1", true}, {13 * s, "1", true}, {14 * s, "1", false}, {14 * s, "2", true}}, failed: []time.Duration{4 * s, 11 * s},
	}
	assert.Equal(t, Accident{
		Name: "one", At: 5 * s, Until: 5 * s, Before: 10, Lost: 20, Back: 2 * s, Refused: 1, Avoidable: 1, RefusedBuckets: 1, Errors: 1,
		Seconds: []int{10, 10, 0, 0, 10, 10, 10, 10, 10, 10},
	}, cost(accident{name: "one", at: 5 * s, until: 5 * s}, h, 13*s))
	assert.Equal(t, Accident{
		Name: "two", At: 13 * s, Until: 15 * s, Before: 10, Lost: 25, Back: s / 2, Refused: 3, Avoidable: 2, RefusedBuckets: 2,
		Seconds: []int{10, 10, 0, 0, 5, 10, 10, 10, 10}, allowed: 5, allowedBuckets: 1,
	}, cost(accident{name: "two", at: 13 * s, until: 15 * s, allowed: 5, allowedBuckets: 1}, h, 20*s))
}

func TestRateThatIsNotBackIsSaid(t *testing.T) {
	t.Parallel()
	const s = time.Second
	one := accident{at: 5 * s, until: 5 * s}
	for name, served := range map[string][]time.Duration{
		"nothing":  every(s/10, 0, 5*s),
		"half":     slices.Concat(every(s/10, 0, 5*s), every(s/5, 5*s, 20*s)),
		"too late": slices.Concat(every(s/10, 0, 5*s), every(s/10, 18*s, 20*s)),
	} {
		cost := cost(one, happenings{served: served}, 20*s)
		assert.Negative(t, cost.Back, name)
		assert.Equal(t, []string{": the rate was back never, after 1s wanted"}, cost.missed(Targets{BackWithin: s}), name)
		assert.Empty(t, cost.missed(Targets{}), "nobody asked")
	}
	unnoticed := cost(accident{at: 5 * s, until: 8 * s}, happenings{served: every(s/10, 0, 20*s)}, 20*s)
	assert.Zero(t, unnoticed.Back, "it is not back before it is over")
	steady := cost(one, happenings{served: every(s/10, 0, 20*s)}, 20*s)
	assert.Zero(t, steady.Back)
	assert.Zero(t, steady.Lost)
}

func TestWhatWasNotAskedForIsNotLost(t *testing.T) {
	t.Parallel()
	const s = time.Second
	planned := slices.Concat(every(s/10, 0, 5*s), every(s/5, 5*s, 20*s))
	cost := cost(accident{at: 5 * s, until: 5 * s}, happenings{served: planned, planned: planned}, 20*s)
	assert.Zero(t, cost.Lost)
	assert.Zero(t, cost.Back)
}

// through are requests of one bucket that were sent and processed at once.
func through(bucket int, at []time.Duration) (all []served) {
	for _, d := range at {
		all = append(all, served{bucket: bucket, arrived: d, sent: d, processed: d})
	}
	return all
}

func TestWhoTakesOverHasToBeAtWork(t *testing.T) {
	t.Parallel()
	const s = time.Second
	planned := every(s/10, 0, 20*s)
	all := happenings{served: planned, planned: planned, period: s, through: byProcessing(slices.Concat(
		through(1, every(s/10, 0, 20*s)), through(2, every(s, 0, 5*s)), through(2, every(s, 8*s, 20*s))))}
	theirs := Work{}
	for _, at := range every(s, 0, 20*s) {
		theirs.Offers = append(theirs.Offers, Offer{At: at, Bucket: 2})
	}
	a := accident{at: 5 * s, until: 5 * s}
	assert.Equal(t, 3*s, account(a, all, all.in(theirs), nil, 20*s).Back, "what others do does not count")
	assert.Zero(t, account(a, all, &all, nil, 20*s).Back)
}

func TestEachBucketHasToServeAgain(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	both := map[int]bool{1: true, 2: true}
	for name, test := range map[string]struct {
		through []served
		touched []touched
		want    time.Duration
	}{
		"the slowest counts": {slices.Concat(through(1, []time.Duration{1100 * ms}), []served{{0, 2, 500 * ms, 1900 * ms, 1950 * ms}}),
			[]touched{{1000 * ms, both}}, 950 * ms},
		"from when it was made": {[]served{{0, 1, 1800 * ms, 1900 * ms, 1950 * ms}, {0, 2, 1000 * ms, 1000 * ms, 1020 * ms}},
			[]touched{{1000 * ms, both}}, 150 * ms},
		"what was sent before does not count": {[]served{{0, 1, 0, 990 * ms, 1010 * ms}, {0, 1, 0, 1500 * ms, 1510 * ms}},
			[]touched{{1000 * ms, map[int]bool{1: true}}}, 510 * ms},
		"each process by its own time": {slices.Concat(through(1, []time.Duration{1100 * ms}), []served{{0, 2, 2000 * ms, 2300 * ms, 2300 * ms}}),
			[]touched{{1000 * ms, map[int]bool{1: true}}, {2200 * ms, map[int]bool{2: true}}}, 100 * ms},
		"one of them never":                 {through(1, []time.Duration{1100 * ms}), []touched{{1000 * ms, both}}, -1},
		"not before the next accident":      {through(1, []time.Duration{5100 * ms}), []touched{{1000 * ms, map[int]bool{1: true}}}, -1},
		"others are none of its business":   {through(3, []time.Duration{4000 * ms}), nil, 0},
		"whoever was never sent is no help": {[]served{{0, 1, 1100 * ms, -1, 1200 * ms}}, []touched{{1000 * ms, map[int]bool{1: true}}}, -1},
	} {
		h := happenings{through: byProcessing(test.through)}
		assert.Equal(t, test.want, h.servedAgain(test.touched, 5*time.Second), name)
	}
}

func TestAccidentMayCostSoMuch(t *testing.T) {
	t.Parallel()
	const s = time.Second
	targets := Targets{BackWithin: 5 * s, ServedWithin: 4 * s}
	for name, test := range map[string]struct {
		cost Accident
		want []string
	}{
		"in time":        {Accident{Back: 5 * s, Served: 4 * s}, nil},
		"what it may":    {Accident{Refused: 5, RefusedBuckets: 1, allowed: 5, allowedBuckets: 1}, nil},
		"any bucket":     {Accident{Refused: 2, RefusedBuckets: 2, allowed: 2}, nil},
		"refused":        {Accident{Name: "x", Refused: 2, Avoidable: 1}, []string{"x: 2 429s, 1 of them avoidable, none wanted"}},
		"in two buckets": {Accident{Name: "x", Refused: 2, RefusedBuckets: 2, allowed: 5, allowedBuckets: 1}, []string{"x: 429s in 2 buckets, at most 1 wanted"}},
		"too late":       {Accident{Name: "x", Back: 6 * s, Served: 6 * s}, []string{"x: the rate was back after 6s, 5s wanted", "x: each bucket served again after 6s, 4s wanted"}},
		"never":          {Accident{Name: "x", Served: -1}, []string{"x: each bucket served again never, after 4s wanted"}},
	} {
		assert.Equal(t, test.want, test.cost.missed(targets), name)
	}
}

func TestRateIsThatOfWholeWindows(t *testing.T) {
	t.Parallel()
	short, long := happenings{period: time.Second}, happenings{period: 5 * time.Second}
	assert.Equal(t, []time.Duration{6 * time.Second, 3 * time.Second}, []time.Duration{short.steady(), short.settled()})
	assert.Equal(t, []time.Duration{5 * time.Second, 5 * time.Second}, []time.Duration{long.steady(), long.settled()})
	require.Positive(t, wholeWindows(time.Second, time.Minute))
}
