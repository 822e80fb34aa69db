package processes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestPairsThatChangedPlacesAreCounted(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	at := func(process, bucket int, arrived, processed time.Duration) served {
		return served{process: process, bucket: bucket, arrived: arrived, processed: processed}
	}
	tests := []struct {
		name            string
		all             []served
		pairs, inverted int
	}{
		{"in order", []served{at(0, 1, 0, 50*ms), at(1, 1, 10*ms, 900*ms)}, 1, 0},
		{"one window too early", []served{at(0, 1, 0, 1100*ms), at(1, 1, 10*ms, 100*ms)}, 1, 1},
		{"told in another order", []served{at(1, 1, 10*ms, 100*ms), at(0, 1, 0, 1100*ms)}, 1, 1},
		{"the network's doing", []served{at(0, 1, 0, 90*ms), at(1, 1, 10*ms, 50*ms)}, 1, 0},
		{"at the same moment", []served{at(0, 1, 0, 1100*ms), at(1, 1, 4*ms, 100*ms)}, 0, 0},
		{"of one process", []served{at(0, 1, 0, 1100*ms), at(0, 1, 10*ms, 100*ms)}, 0, 0},
		{"in two buckets", []served{at(0, 1, 0, 1100*ms), at(1, 2, 10*ms, 100*ms)}, 0, 0},
		{"one overtakes two", []served{at(0, 1, 0, 1000*ms), at(0, 1, 10*ms, 1100*ms), at(1, 1, 20*ms, 100*ms), at(1, 1, 30*ms, 2000*ms)}, 4, 2},
	}
	for _, test := range tests {
		pairs, inverted := inversions(test.all, simultaneous, 0)
		assert.Equal(t, test.pairs, pairs, test.name)
		assert.Equal(t, test.inverted, inverted, test.name)
	}
}

// While the bucket is not known, a process may go ahead of others; then no more.
func TestOrderCountsFromTheSecondWindowOn(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	at := func(process, bucket int, arrived, processed time.Duration) served {
		return served{process: process, bucket: bucket, arrived: arrived, processed: processed}
	}
	tests := []struct {
		name            string
		all             []served
		pairs, inverted int
	}{
		{"who found it out went ahead", []served{at(0, 1, 0, 20*ms), at(1, 1, 10*ms, 1040*ms), at(0, 1, 20*ms, 100*ms)}, 1, 0},
		{"in the second window", []served{at(0, 1, 0, 20*ms), at(1, 1, 10*ms, 2100*ms), at(0, 1, 20*ms, 1020*ms)}, 2, 1},
		{"another bucket's first window", []served{at(0, 2, 0, 20*ms), at(0, 1, 0, 1500*ms), at(1, 1, 10*ms, 3500*ms), at(0, 1, 20*ms, 1600*ms)}, 1, 0},
	}
	for _, test := range tests {
		pairs, inverted := inversions(test.all, simultaneous, time.Second)
		assert.Equal(t, test.pairs, pairs, test.name)
		assert.Equal(t, test.inverted, inverted, test.name)
	}
}
