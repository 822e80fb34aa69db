package fifo

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// serve lets n go, and returns the names of their groups.
func serve(turns *Turns[string], n int) (served string) {
	for range n {
		e := turns.Head()
		turns.Spend()
		turns.Remove(e, e.Value)
		served += e.Value
	}
	return served
}

func waiting(turns *Turns[string], group string, weight, n int) {
	for range n {
		turns.Insert(&Element[string]{Value: group, Arrived: time.Duration(turns.Len())}, group, weight)
	}
}

func TestGroupsTakeTurnsByWeight(t *testing.T) {
	t.Parallel()
	var turns Turns[string]
	waiting(&turns, "a", 1, 10_000)
	assert.Equal(t, "aa", serve(&turns, 2))
	waiting(&turns, "b", 1, 2)
	waiting(&turns, "c", 3, 4)
	assert.Equal(t, 5, turns.Weights())
	assert.Equal(t, "abcccabcaa", serve(&turns, 10))
	assert.Equal(t, 1, turns.Weights())
	assert.Equal(t, 10_000-2-4, turns.Len())
}

// With one group, or none, the order is that of arrival, and who comes back stands where it stood.
func TestOneGroupIsAQueue(t *testing.T) {
	t.Parallel()
	for _, group := range []string{"", "a"} {
		var turns Turns[int]
		for i := range 5 {
			turns.Insert(&Element[int]{Value: i, Arrived: time.Duration(10 * i)}, group, 1)
		}
		turns.Insert(&Element[int]{Value: 9, Arrived: 15}, group, 1)
		for _, want := range []int{0, 1, 9, 2, 3, 4} {
			e := turns.Head()
			require.Equal(t, want, e.Value)
			turns.Spend()
			require.True(t, turns.Remove(e, group))
			require.False(t, turns.Remove(e, group))
		}
		require.Nil(t, turns.Head())
		require.Zero(t, turns.Weights())
	}
}

// Whatever comes and goes, no group that waits is passed over: between two of its turns every other one has at most one.
func TestNoGroupIsPassedOver(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var turns Turns[string]
		waits := map[string][]*Element[string]{}
		passed := map[string]map[string]int{} // since its latest turn, by whom
		n := 0
		t.Repeat(map[string]func(*rapid.T){
			"arrive": func(t *rapid.T) {
				group := rapid.SampledFrom([]string{"", "a", "b", "c", "d"}).Draw(t, "group")
				n++
				e := &Element[string]{Value: group, Arrived: time.Duration(n)}
				if len(waits[group]) == 0 {
					passed[group] = map[string]int{}
				}
				waits[group] = append(waits[group], e)
				turns.Insert(e, group, len(group)+1)
			},
			"leave": func(t *rapid.T) {
				group := rapid.SampledFrom([]string{"", "a", "b", "c", "d"}).Draw(t, "group")
				all := waits[group]
				if len(all) == 0 {
					t.Skip("nobody of the group waits")
				}
				i := rapid.IntRange(0, len(all)-1).Draw(t, "who")
				require.True(t, turns.Remove(all[i], group))
				waits[group] = append(all[:i:i], all[i+1:]...)
			},
			"serve": func(t *rapid.T) {
				e := turns.Head()
				if e == nil {
					t.Skip("nobody waits")
				}
				group := e.Value
				require.Same(t, waits[group][0], e, "first come, first served inside a group")
				turns.Spend()
				require.True(t, turns.Remove(e, group))
				waits[group], passed[group] = waits[group][1:], map[string]int{}
				for other, by := range passed {
					if other != group && len(waits[other]) > 0 {
						by[group]++
						require.LessOrEqual(t, by[group], 2*(len(group)+1), "%q waits while %q is served", other, group)
					}
				}
			},
			"": func(t *rapid.T) {
				total, weights := 0, 0
				for group, all := range waits {
					total += len(all)
					if len(all) > 0 {
						weights += len(group) + 1
					}
				}
				require.Equal(t, total, turns.Len())
				require.Equal(t, weights, turns.Weights())
				require.Equal(t, total == 0, turns.Head() == nil)
			},
		})
	})
}

func TestManyGroupsThatHaveGoneLeaveNothing(t *testing.T) {
	t.Parallel()
	var turns Turns[string]
	for i := range 1000 {
		waiting(&turns, strconv.Itoa(i), 1, 1)
	}
	serve(&turns, 1000)
	assert.Empty(t, turns.named)
}

// How many go before one is what happens: the queues of each group, which are elements here, take turns, too.
func TestAheadIsHowManyOfOtherGroupsGoBefore(t *testing.T) {
	t.Parallel()
	type queue struct {
		Element[*queue]
		group string
		size  int
	}
	rapid.Check(t, func(t *rapid.T) {
		var turns Turns[*queue]
		arrived := time.Duration(0)
		insert := func(q *queue) {
			arrived++
			q.Value, q.Arrived = q, arrived
			turns.Insert(&q.Element, q.group, len(q.group)+1)
		}
		serve := func() string {
			q := turns.Head().Value
			turns.Spend()
			turns.Remove(&q.Element, q.group)
			if q.size--; q.size > 0 {
				insert(q)
			}
			return q.group
		}
		groups := rapid.SampledFrom([]string{"", "a", "bb", "cccc", "ddddd"})
		total := map[string]int{}
		for range rapid.IntRange(1, 20).Draw(t, "queues") {
			q := &queue{group: groups.Draw(t, "group"), size: rapid.IntRange(1, 30).Draw(t, "size")}
			total[q.group] += q.size
			insert(q)
		}
		for range rapid.IntRange(0, 10).Draw(t, "served") {
			if turns.Len() > 0 {
				total[serve()]--
			}
		}
		group := groups.Draw(t, "whose")
		if total[group] == 0 {
			_, ok := turns.Ahead(group, 0, nil)
			require.False(t, ok)
			require.Nil(t, turns.Group(group))
			return
		}
		before := rapid.IntRange(0, total[group]-1).Draw(t, "before")
		got, ok := turns.Ahead(group, before, func(q *queue) int { return q.size })
		require.True(t, ok)
		want := 0
		for own := before; ; want++ {
			if serve() == group {
				if own == 0 {
					break
				}
				own--
				want--
			}
		}
		require.Equal(t, want, got)
	})
}

// Who had its turn and could not use it comes before all groups, and takes no turn of theirs.
func TestReturned(t *testing.T) {
	t.Parallel()
	var turns Turns[string]
	waiting(&turns, "a", 2, 3)
	waiting(&turns, "b", 1, 2)
	e := turns.Head()
	turns.Spend()
	turns.Remove(e, "a")
	turns.Return(e)
	assert.Equal(t, 5, turns.Len())
	assert.Equal(t, "aabab", serve(&turns, 5))
	assert.Zero(t, turns.Len())
	assert.Nil(t, turns.Head())
}

// With very many groups only some are looked at, and the place of one among the others is told by when each began to wait for its turn.
func TestAheadWithVeryManyGroups(t *testing.T) {
	t.Parallel()
	var turns Turns[string]
	for i := range 10_000 {
		waiting(&turns, "g"+strconv.Itoa(i), 1, 3)
	}
	serve(&turns, 500)
	for _, group := range []int{500, 550, 2000, 5000, 9999, 0, 499} {
		place := (group - 500 + 10_000) % 10_000
		for before := range 2 {
			n, ok := turns.Ahead("g"+strconv.Itoa(group), before, func(string) int { return 1 })
			assert.True(t, ok)
			assert.InDelta(t, place+before*9999, n, 200, "group %d, %d before", group, before)
		}
	}
}
