package share

import (
	"slices"
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
		require.Len(t, work, each)
		for _, caller := range work {
			assert.Zero(t, caller.bucket)
			assert.Contains(t, []int{2, 3}, caller.count)
			assert.EqualValues(t, process, caller.at/apart%4)
			starts[caller.at]++
			requests += caller.count
		}
	}
	assert.Len(t, starts, 40, "no two at once")
	assert.Equal(t, 101, requests)
	assert.Zero(t, contested(2, 0)[1][3].count, "until the end")
}

func TestOwnBucketsAreTheirProcessesAlone(t *testing.T) {
	t.Parallel()
	const length = 200 * time.Second
	for process, work := range own(3, 0, length, 1) {
		for _, offer := range work {
			assert.Equal(t, process, offer.bucket/each)
			assert.Less(t, offer.at, length)
		}
		assert.InEpsilon(t, each*offered*length.Seconds(), len(work), 0.1)
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
		for _, offer := range work {
			all++
			if offer.bucket/each != process {
				foreign++
				by[process] = true
			}
		}
	}
	assert.InEpsilon(t, 0.02, float64(foreign)/float64(all), 0.2)
	assert.Len(t, by, 4)
	assert.ElementsMatch(t, slices.Concat(own(4, 0, length, 1)...), slices.Concat(works...), "the same requests, made by others")
	assert.Equal(t, own(1, 0, length, 1), own(1, 50, length, 1), "there is nobody else")
}

func TestWindowsThatAreUsedUpBeginAtDifferentTimes(t *testing.T) {
	t.Parallel()
	works := usedUp(3)
	require.Len(t, works, 3)
	callers, users, begins := make(map[int]int), make(map[int]map[int]bool), make(map[time.Duration]bool)
	for process, work := range works {
		assert.Len(t, work.buckets(), each+5)
		for _, caller := range work {
			assert.Zero(t, caller.count, "until the end")
			assert.Less(t, caller.at, longWindow.Period)
			callers[caller.bucket]++
			if users[caller.bucket] == nil {
				users[caller.bucket] = make(map[int]bool)
			}
			users[caller.bucket][process] = true
			begins[caller.at] = true
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
	planned, err := idealOf(slices.Concat(contested(4, 100)...), quota)
	require.NoError(t, err)
	assert.Equal(t, 19*(time.Second+latency.Smallest())+latency.Smallest(), planned.Makespan, "20 windows, the last of which takes a round trip")
	assert.Zero(t, planned.MeanWait, "it depends on when callers come again")

	one, err := idealOf(work{{at: time.Second, count: 1}, {at: time.Second, bucket: 1, count: 1}}, quota)
	require.NoError(t, err)
	assert.Equal(t, time.Second+2*latency.Smallest(), one.Makespan, "one finds out the limit, and the other one comes after it")
	assert.Equal(t, latency.Smallest()/2, one.MeanWait)

	shared, err := idealOf(slices.Concat(own(4, 0, 20*time.Second, 1)...), quota)
	require.NoError(t, err)
	assert.Greater(t, shared.MeanWait, 10*time.Millisecond)
	assert.Less(t, shared.MeanWait, 200*time.Millisecond)
}
