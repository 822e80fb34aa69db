package share

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/bench/internal/report"
)

const ms = time.Millisecond

// every is a time each period, from one time to another.
func every(period, from, to time.Duration) (at []time.Duration) {
	for ; from < to; from += period {
		at = append(at, from)
	}
	return at
}

func TestAccidentsCostWhatDidNotComeThrough(t *testing.T) {
	t.Parallel()
	const s = time.Second
	h := history{
		window: s, failed: []time.Duration{4 * s, 11 * s},
		processed: slices.Concat(every(s/10, 0, 5*s), every(s/10, 7*s, 13*s), every(s/10, 15*s+s/2, 20*s)),
		refused:   []refusal{{6 * s, "1", true}, {13 * s, "1", true}, {14 * s, "1", false}, {14 * s, "2", true}},
	}
	one := h.cost(accident{at: 5 * s, until: 5 * s}, nil, 13*s)
	assert.Equal(t, cost{accident: one.accident, before: 10, lost: 20, back: 2 * s, refused: 1, avoidable: 1, buckets: 1, errors: 1}, one)
	two := h.cost(accident{at: 13 * s, until: 15 * s}, nil, 20*s)
	assert.Equal(t, cost{accident: two.accident, before: 10, lost: 25, back: s / 2, refused: 3, avoidable: 2, buckets: 2}, two)
}

func TestRateIsBackWhenItStays(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for name, test := range map[string]struct {
		processed, planned []time.Duration
		back               time.Duration
		lost               float64
	}{
		"nothing comes":       {every(s/10, 0, 5*s), nil, -1, 150},
		"half of it":          {slices.Concat(every(s/10, 0, 5*s), every(s/5, 5*s, 20*s)), nil, -1, 75},
		"too late":            {slices.Concat(every(s/10, 0, 5*s), every(s/10, 18*s, 20*s)), nil, -1, 130},
		"as before":           {every(s/10, 0, 20*s), nil, 0, 0},
		"no more is asked of": {slices.Concat(every(s/10, 0, 5*s), every(s/5, 5*s, 20*s)), slices.Concat(every(s/10, 0, 5*s), every(s/5, 5*s, 20*s)), 0, 0},
	} {
		c := (&history{processed: test.processed, planned: test.planned, window: s}).cost(accident{at: 5 * s, until: 5 * s}, nil, 20*s)
		assert.Equal(t, test.back, c.back, name)
		assert.InDelta(t, test.lost, c.lost, 0.001, name)
	}
	lasting := (&history{processed: every(s/10, 0, 20*s), window: s}).cost(accident{at: 5 * s, until: 8 * s}, nil, 20*s)
	assert.Zero(t, lasting.back, "it is not back before it is over")
}

// served is a request that was let through.
func served(place, bucket int, arrived, sent, processed time.Duration) *request {
	return &request{place: place, bucket: bucket, Passage: report.Passage{HandedOver: arrived}, sent: sent, processed: processed}
}

// through is one that was sent and processed at once.
func through(bucket int, at time.Duration) []*request {
	return []*request{served(0, bucket, at, at, at)}
}

func TestEachBucketHasToServeAgain(t *testing.T) {
	t.Parallel()
	works := []work{{{bucket: 1}}, {{bucket: 2}}}
	both := []affected{{1000 * ms, 0}, {1000 * ms, 1}}
	for name, test := range map[string]struct {
		through  []*request
		affected []affected
		want     time.Duration
	}{
		"the slowest counts":                  {append(through(1, 1100*ms), served(0, 2, 500*ms, 1900*ms, 1950*ms)), both, 950 * ms},
		"from when it arrived":                {append(through(2, 1020*ms), served(0, 1, 1800*ms, 1900*ms, 1950*ms)), both, 150 * ms},
		"what was sent before does not count": {[]*request{served(0, 1, 0, 990*ms, 1010*ms), served(0, 1, 0, 1500*ms, 1510*ms)}, both[:1], 510 * ms},
		"each process by its own time": {append(through(1, 1100*ms), served(0, 2, 2000*ms, 2300*ms, 2300*ms)),
			[]affected{{1000 * ms, 0}, {2200 * ms, 1}}, 100 * ms},
		"one of them never":            {through(1, 1100*ms), both, -1},
		"not before the next accident": {through(1, 5100*ms), both[:1], -1},
		"nobody is affected":           {through(3, 4000*ms), nil, 0},
	} {
		h := history{served: test.through, works: works}
		assert.Equal(t, test.want, h.servedAgain(test.affected, 5*time.Second), name)
	}
}

func TestAccidentMayCostSoMuch(t *testing.T) {
	t.Parallel()
	const s = time.Second
	wanted := targets{backWithin: 5 * s, servedWithin: 4 * s}
	five, two := accident{name: "x", allowed: 5, allowedBuckets: 1}, accident{name: "x", allowed: 2}
	for name, test := range map[string]struct {
		cost cost
		want []string
	}{
		"in time":        {cost{back: 5 * s, served: 4 * s}, nil},
		"what it may":    {cost{accident: five, refused: 5, buckets: 1}, nil},
		"any bucket":     {cost{accident: two, refused: 2, buckets: 2}, nil},
		"refused":        {cost{accident: accident{name: "x"}, refused: 2, avoidable: 1}, []string{"x: 2 429s, 1 of them avoidable, none wanted"}},
		"refused more":   {cost{accident: two, refused: 3, avoidable: 3}, []string{"x: 3 429s, 3 of them avoidable, at most 2 wanted"}},
		"in two buckets": {cost{accident: five, refused: 2, buckets: 2}, []string{"x: 429s in 2 buckets, at most 1 wanted"}},
		"too late": {cost{accident: two, back: 6 * s, served: 6 * s},
			[]string{"x: the rate was back after 6.00 s, after 5s wanted", "x: each bucket served again after 6.00 s, after 4s wanted"}},
		"never": {cost{accident: two, served: -1}, []string{"x: each bucket served again never, after 4s wanted"}},
	} {
		assert.Equal(t, test.want, test.cost.missed(wanted), name)
	}
}

func TestPairsThatChangedPlacesAreCounted(t *testing.T) {
	t.Parallel()
	at := func(place, bucket int, arrived, processed time.Duration) *request {
		return served(place, bucket, arrived, arrived, processed)
	}
	for name, test := range map[string]struct {
		all             []*request
		window          time.Duration
		pairs, inverted int
	}{
		"in order":             {[]*request{at(0, 1, 0, 50*ms), at(1, 1, 10*ms, 900*ms)}, 0, 1, 0},
		"one window too early": {[]*request{at(1, 1, 10*ms, 100*ms), at(0, 1, 0, 1100*ms)}, 0, 1, 1},
		"the network's doing":  {[]*request{at(1, 1, 10*ms, 50*ms), at(0, 1, 0, 90*ms)}, 0, 1, 0},
		"at the same moment":   {[]*request{at(1, 1, 4*ms, 100*ms), at(0, 1, 0, 1100*ms)}, 0, 0, 0},
		"of one process":       {[]*request{at(0, 1, 10*ms, 100*ms), at(0, 1, 0, 1100*ms)}, 0, 0, 0},
		"in two buckets":       {[]*request{at(1, 2, 10*ms, 100*ms), at(0, 1, 0, 1100*ms)}, 0, 0, 0},
		"one overtakes two":    {[]*request{at(1, 1, 20*ms, 100*ms), at(0, 1, 0, 1000*ms), at(0, 1, 10*ms, 1100*ms), at(1, 1, 30*ms, 2000*ms)}, 0, 4, 2},
		"in the first window":  {[]*request{at(0, 1, 0, 20*ms), at(0, 1, 20*ms, 100*ms), at(1, 1, 10*ms, 1040*ms)}, time.Second, 1, 0},
		"in the second window": {[]*request{at(0, 1, 0, 20*ms), at(0, 1, 20*ms, 1020*ms), at(1, 1, 10*ms, 2100*ms)}, time.Second, 2, 1},
		"another's first window": {
			[]*request{at(0, 2, 0, 20*ms), at(0, 1, 0, 1500*ms), at(0, 1, 20*ms, 1600*ms), at(1, 1, 10*ms, 3500*ms)}, time.Second, 1, 0,
		},
	} {
		pairs, inverted := (&history{served: test.all, window: test.window}).inversions(simultaneous)
		assert.Equal(t, []int{test.pairs, test.inverted}, []int{pairs, inverted}, name)
	}
}
