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

func TestAccidentsCostWhatDidNotComeThrough(t *testing.T) {
	t.Parallel()
	const s = time.Second
	two := []accident{{name: "one", at: 5 * s, until: 5 * s}, {name: "two", at: 13 * s, until: 15 * s, losesState: true}}
	served := slices.Concat(every(s/10, 0, 5*s), every(s/10, 7*s, 13*s), every(s/10, 15*s+s/2, 20*s))
	costs := account(two, happenings{
		served: served, refused: []time.Duration{6 * s, 13 * s, 14 * s}, failed: []time.Duration{4 * s, 11 * s},
	}, 20*s)
	assert.Equal(t, []Accident{{
		Name: "one", At: 5 * s, Until: 5 * s, Before: 10, Lost: 20, Back: 2 * s, Refused: 1, Errors: 1,
		Seconds: []int{10, 10, 0, 0, 10, 10, 10, 10, 10, 10},
	}, {
		Name: "two", At: 13 * s, Until: 15 * s, Before: 10, Lost: 25, Back: s / 2, Refused: 2,
		Seconds: []int{10, 10, 0, 0, 5, 10, 10, 10, 10}, losesState: true,
	}}, costs)
}

func TestRateThatIsNotBackIsSaid(t *testing.T) {
	t.Parallel()
	const s = time.Second
	one := []accident{{at: 5 * s, until: 5 * s}}
	for name, served := range map[string][]time.Duration{
		"nothing":  every(s/10, 0, 5*s),
		"half":     slices.Concat(every(s/10, 0, 5*s), every(s/5, 5*s, 20*s)),
		"too late": slices.Concat(every(s/10, 0, 5*s), every(s/10, 18*s, 20*s)),
	} {
		costs := account(one, happenings{served: served}, 20*s)
		assert.Negative(t, costs[0].Back, name)
		missed := costs[0].missed(Targets{BackWithin: s})
		require.Len(t, missed, 1, name)
		assert.Contains(t, missed[0], "not back")
	}
	unnoticed := account([]accident{{at: 5 * s, until: 8 * s}}, happenings{served: every(s/10, 0, 20*s)}, 20*s)
	assert.Zero(t, unnoticed[0].Back, "it is not back before it is over")
	steady := account(one, happenings{served: every(s/10, 0, 20*s)}, 20*s)
	assert.Zero(t, steady[0].Back)
	assert.Zero(t, steady[0].Lost)
}

func TestWhatWasNotAskedForIsNotLost(t *testing.T) {
	t.Parallel()
	const s = time.Second
	planned := slices.Concat(every(s/10, 0, 5*s), every(s/5, 5*s, 20*s))
	costs := account([]accident{{at: 5 * s, until: 5 * s}}, happenings{served: planned, planned: planned}, 20*s)
	assert.Zero(t, costs[0].Lost)
	assert.Zero(t, costs[0].Back)
}

func TestWhoTakesOverHasToBeAtWork(t *testing.T) {
	t.Parallel()
	const s = time.Second
	planned := every(s/10, 0, 20*s)
	all := happenings{served: planned, planned: planned}
	all.ofTheDead = &happenings{planned: every(s, 0, 20*s), served: slices.Concat(every(s, 0, 5*s), every(s, 8*s, 20*s))}
	costs := account([]accident{{at: 5 * s, until: 5 * s, kills: true}, {at: 12 * s, until: 12 * s}}, all, 20*s)
	assert.Equal(t, 3*s, costs[0].Back, "what others do does not count")
	assert.Zero(t, costs[1].Back)
}

func TestAccidentMayCostSoMuch(t *testing.T) {
	t.Parallel()
	targets := Targets{BackWithin: 5 * time.Second, Refused: 2}
	assert.Empty(t, Accident{Back: 5 * time.Second}.missed(targets))
	assert.Empty(t, Accident{Refused: 2, losesState: true}.missed(targets))
	assert.Equal(t, []string{"x: 1 429s, at most 0 wanted"}, Accident{Name: "x", Refused: 1}.missed(targets))
	assert.Equal(t, []string{"x: 3 429s, at most 2 wanted"}, Accident{Name: "x", Refused: 3, losesState: true}.missed(targets))
	assert.Equal(t, []string{"x: the rate was back after 6s, 5s wanted"}, Accident{Name: "x", Back: 6 * time.Second}.missed(targets))
}
