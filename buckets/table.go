package buckets

import (
	"iter"
	"math"
	"math/bits"
	"math/rand/v2"

	"github.com/puzpuzpuz/xsync/v4"
)

// table finds a bucket by its family and major parameter: together they are the real bucket hash, as the family stands for
// hash and authentication.
//
// There may be millions of buckets, so the keys are 64-bit hashes of both. Should two buckets have the same, which nobody may ever
// see, the second one stands at the next free key. The one that it had to pass by is kept for good, because it is
// what leads to the second one.
type table struct {
	*xsync.Map[uint64, *RESTBucket]
	seeds [3]uint64
	mask  uint64 // of the keys that are used; tests make it small
}

func newTable() table {
	return table{
		Map:   xsync.NewMap[uint64, *RESTBucket](),
		seeds: [3]uint64{rand.Uint64(), rand.Uint64(), rand.Uint64()},
		mask:  math.MaxUint64,
	}
}

func (t *table) hash(f *family, m major) uint64 {
	return mix(mix(f.id^t.seeds[0], m.id^t.seeds[1]), m.token^t.seeds[2]) & t.mask
}

// mix multiplies, and folds the two halves of the product into one.
func mix(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

// find returns the bucket of a family and a major parameter, nil if there is none. It does not block.
func (t *table) find(f *family, m major) *RESTBucket {
	for key := t.hash(f, m); ; key++ {
		b, ok := t.Load(key)
		if !ok {
			return nil
		}
		if b.family == f && b.major == m {
			return b
		}
	}
}

// findOrMake returns the bucket of a family and a major parameter, made if there is none, and whether there was.
func (t *table) findOrMake(f *family, m major, create func() *RESTBucket) (b *RESTBucket, found bool) {
	for key := t.hash(f, m); ; {
		b, found := t.LoadOrCompute(key, func() (*RESTBucket, bool) {
			b := create()
			b.key = key
			return b, false
		})
		switch {
		case b.family == f && b.major == m:
			return b, found
		case b.passBy():
			key++
		}
	}
}

// passBy makes sure that the bucket stays where it is. It reports false if it is about to go.
func (b *RESTBucket) passBy() bool {
	b.passed.Store(true)
	return !b.evicted.Load()
}

// remove takes a bucket out that is locked, unless it has to stay.
func (t *table) remove(b *RESTBucket) bool {
	b.evicted.Store(true)
	if b.passed.Load() {
		b.evicted.Store(false)
		return false
	}
	t.Delete(b.key)
	return true
}

// all iterates over the buckets, in no order. Those that come or go meanwhile may be missing.
func (t *table) all() iter.Seq[*RESTBucket] {
	return func(yield func(*RESTBucket) bool) {
		for _, b := range t.All() {
			if !yield(b) {
				return
			}
		}
	}
}
