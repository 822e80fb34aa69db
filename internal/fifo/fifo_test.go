package fifo

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type person struct {
	Element[*person]
	name int
}

// TestAnySequenceKeepsTheOrderOfArrival inserts and removes elements at random, and compares the queue with a slice
// that is sorted after each insertion.
func TestAnySequenceKeepsTheOrderOfArrival(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var queue Queue[*person]
		var model []*person
		names := 0
		t.Repeat(map[string]func(*rapid.T){
			"arrive": func(t *rapid.T) {
				p := &person{name: names}
				names++
				p.Value = p
				p.Arrived = time.Duration(rapid.IntRange(0, 20).Draw(t, "arrived"))
				queue.Insert(&p.Element)
				model = append(model, p)
				slices.SortStableFunc(model, func(a, b *person) int { return int(a.Arrived - b.Arrived) })
			},
			"leave": func(t *rapid.T) {
				if len(model) == 0 {
					t.Skip("the queue is empty")
				}
				i := rapid.IntRange(0, len(model)-1).Draw(t, "who")
				require.True(t, queue.Remove(&model[i].Element))
				require.False(t, queue.Remove(&model[i].Element), "an element can be removed only once")
				require.False(t, model[i].Queued())
				model = slices.Delete(model, i, i+1)
			},
			"count": func(t *rapid.T) {
				at := time.Duration(rapid.IntRange(-1, 21).Draw(t, "at"))
				n := 0
				for _, p := range model {
					if p.Arrived <= at {
						n++
					}
				}
				require.Equal(t, n, queue.Before(at))
			},
			"": func(t *rapid.T) {
				require.Equal(t, len(model), queue.Len())
				e := queue.Head()
				for _, p := range model {
					require.Same(t, p, e.Value)
					require.True(t, e.Queued())
					e = e.Next()
				}
				require.Nil(t, e)
			},
		})
	})
}

func TestElementOfAnotherQueueStays(t *testing.T) {
	t.Parallel()
	var a, b Queue[*person]
	p := &person{}
	a.Insert(&p.Element)
	require.False(t, b.Remove(&p.Element))
	require.Panics(t, func() { b.Insert(&p.Element) })
	require.Equal(t, 1, a.Len())
}

// Elements with priority are inserted somewhere before the last element. In a long queue this must not take much longer
// than in a short one, even if the head is removed and inserted again each time.
func TestPriorityAmongManyCostsNoMoreThanAmongFew(t *testing.T) {
	few, many := overtake(1_000), overtake(300_000)
	for range 5 { // the machine may be busy, so take the fastest run
		few, many = min(few, overtake(1_000)), min(many, overtake(300_000))
	}
	require.Less(t, many, 30*few, "the queue is 300 times as long")
}

// overtake returns how long it takes to insert 1000 elements that each overtake a third of the queue.
func overtake(waiting int) time.Duration {
	var queue Queue[int]
	all := make([]Element[int], waiting)
	for i := range all {
		all[i].Arrived = time.Duration(3 * i)
		queue.Insert(&all[i])
	}
	first, last := make([]Element[int], 1000), make([]Element[int], 1000)
	queue.Before(time.Duration(2 * waiting)) // the first search is long and is not measured
	start := time.Now()
	for i := range first {
		first[i].Arrived = time.Duration(2*waiting + 3*i)
		queue.Before(first[i].Arrived)
		queue.Insert(&first[i])
		last[i].Arrived = time.Duration(3 * (waiting + i))
		queue.Insert(&last[i])
		head := queue.Head() // like a refused request, which comes back
		queue.Remove(head)
		queue.Insert(head)
	}
	return time.Since(start)
}
