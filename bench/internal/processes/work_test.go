package processes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCallersOfOneBucketTakeTurns(t *testing.T) {
	t.Parallel()
	works := contested(4, 101)
	require.Len(t, works, 4)
	starts, requests := make(map[time.Duration]int), 0
	for process, work := range works {
		require.Len(t, work.Callers, each)
		for _, caller := range work.Callers {
			assert.Zero(t, caller.Bucket)
			assert.Contains(t, []int{2, 3}, caller.Count)
			assert.EqualValues(t, process, caller.At/apart%4)
			starts[caller.At]++
			requests += caller.Count
		}
	}
	assert.Len(t, starts, 40, "no two at once")
	assert.Equal(t, 101, requests)
	assert.Zero(t, contested(2, 0)[1].Callers[3].Count, "until the end")
}

func TestOwnBucketsAreTheirProcessesAlone(t *testing.T) {
	t.Parallel()
	const length = 200 * time.Second
	for process, work := range own(3, 0, length, 1) {
		last := time.Duration(0)
		for _, offer := range work.Offers {
			assert.Equal(t, process, offer.Bucket/each)
			assert.GreaterOrEqual(t, offer.At, last)
			assert.Less(t, offer.At, length)
			last = offer.At
		}
		assert.InEpsilon(t, each*offered*length.Seconds(), len(work.Offers), 0.1)
	}
	assert.Equal(t, own(3, 0, length, 1), own(3, 0, length, 1))
	assert.NotEqual(t, own(3, 0, length, 1), own(3, 0, length, 2))
}

func TestOneRequestInFiftyIsForeign(t *testing.T) {
	t.Parallel()
	const length = 200 * time.Second
	foreign, all := 0, 0
	by := make(map[int]bool)
	works := own(4, 50, length, 1)
	for process, work := range works {
		for _, offer := range work.Offers {
			all++
			if offer.Bucket/each != process {
				foreign++
				by[process] = true
			}
		}
	}
	assert.InEpsilon(t, 0.02, float64(foreign)/float64(all), 0.2)
	assert.Len(t, by, 4)
	assert.Equal(t, together(own(4, 0, length, 1)), together(works), "the same requests, made by others")
	assert.Equal(t, own(1, 0, length, 1), own(1, 50, length, 1), "there is nobody else")
}

func TestOnesWorkIsAllOfItInOrder(t *testing.T) {
	t.Parallel()
	all := together(contested(3, 60))
	require.Len(t, all, 1)
	require.Len(t, all[0].Callers, 30)
	for i, caller := range all[0].Callers {
		assert.Equal(t, time.Duration(i)*apart, caller.At)
	}
	assert.Equal(t, 60, all[0].requests())
}

func TestWhoTakesOverGetsWhatIsLeft(t *testing.T) {
	t.Parallel()
	work := Work{Callers: []Caller{{At: 1, Bucket: 2}, {At: 7}}, Offers: []Offer{{At: 1}, {At: 5}, {At: 6}}}
	assert.Equal(t, Work{Callers: []Caller{{At: 5, Bucket: 2}, {At: 7}}, Offers: []Offer{{At: 5}, {At: 6}}}, work.after(5))
	assert.Len(t, work.Offers, 3)
	assert.EqualValues(t, 1, work.Callers[0].At)
}

func TestWindowsThatAreUsedUpBeginAtDifferentTimes(t *testing.T) {
	t.Parallel()
	works := usedUp(3)
	require.Len(t, works, 3)
	callers, users, begins := make(map[int]int), make(map[int]map[int]bool), make(map[time.Duration]bool)
	for process, work := range works {
		assert.Len(t, work.buckets(), each+5)
		for _, caller := range work.Callers {
			assert.Zero(t, caller.Count, "until the end")
			assert.Less(t, caller.At, longWindow.Period)
			callers[caller.Bucket]++
			if users[caller.Bucket] == nil {
				users[caller.Bucket] = make(map[int]bool)
			}
			users[caller.Bucket][process] = true
			begins[caller.At] = true
		}
	}
	assert.Len(t, begins, 3*each+5, "one for each bucket")
	for bucket, n := range callers {
		if bucket < 3*each {
			assert.Equal(t, map[int]bool{bucket / each: true}, users[bucket])
			assert.Equal(t, 2, n)
		} else {
			assert.Len(t, users[bucket], 3)
		}
	}
}

func TestIdealIsThatOfOneClient(t *testing.T) {
	t.Parallel()
	planned, err := ideal(contested(4, 100))
	require.NoError(t, err)
	assert.Equal(t, 19*(time.Second+latency.Smallest())+latency.Smallest(), planned.Took, "20 windows, the last of which takes a round trip")
	assert.Zero(t, planned.MeanWait, "it depends on when callers come again")

	one, err := ideal([]Work{{Offers: []Offer{{At: time.Second}, {At: time.Second, Bucket: 1}}}})
	require.NoError(t, err)
	assert.Equal(t, time.Second+2*latency.Smallest(), one.Took, "one finds out the limit, and the other one comes after it")
	assert.Equal(t, latency.Smallest()/2, one.MeanWait)

	works := own(4, 0, 20*time.Second, 1)
	shared, err := ideal(works)
	require.NoError(t, err)
	alone, err := ideal(together(works))
	require.NoError(t, err)
	assert.Equal(t, alone, shared)
	assert.Greater(t, shared.MeanWait, 10*time.Millisecond)
	assert.Less(t, shared.MeanWait, 200*time.Millisecond)
}
