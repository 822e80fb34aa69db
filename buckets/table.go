package buckets

import (
	"iter"
	"math"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"

	"github.com/puzpuzpuz/xsync/v4"
)

// table finds a bucket by its limit group and major parameter: together they are the real bucket hash, as the limit group stands for
// hash and authentication.
//
// There may be millions of buckets, so the keys are 64-bit hashes of both. Should two buckets have the same, which nobody may ever
// see, the second one stands at the next free key. The one that it had to pass by is kept for good, because it is
// what leads to the second one.
//
// A map that grows stops those who insert until everything has moved, which takes tenths of a second for a million buckets. So
// there are many small maps, each of them made when it is needed first.
type table struct {
	shards [256]atomic.Pointer[tableShard]
	seeds  [3]uint64
	mask   uint64 // of the keys that are used; tests make it small
	count  atomic.Int64
}

type tableShard = xsync.Map[uint64, *bucket]

// shardBits is how many bits of the key say in which shard it is.
const shardBits = 8

func newTable() *table {
	return &table{seeds: [3]uint64{rand.Uint64(), rand.Uint64(), rand.Uint64()}, mask: math.MaxUint64}
}

// shard returns the map in which a key is or may be, nil if there is none.
func (t *table) shard(key uint64) *tableShard { return t.shards[key>>(64-shardBits)].Load() }

// makeShard is shard, and makes it if there is none.
func (t *table) makeShard(key uint64) *tableShard {
	if t.shard(key) == nil {
		t.shards[key>>(64-shardBits)].CompareAndSwap(nil, xsync.NewMap[uint64, *bucket]())
	}
	return t.shard(key)
}

func (t *table) hash(group *limitGroup, m major) uint64 {
	return mix(mix(group.id^t.seeds[0], m.id^t.seeds[1]), m.token^t.seeds[2]) & t.mask
}

// mix mixes two hashes.
func (t *table) mix(a, b uint64) uint64 { return mix(a^t.seeds[0], b^t.seeds[1]) & t.mask }

// mix multiplies, and folds the two halves of the product into one.
func mix(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

// find returns the bucket of a limit group and a major parameter, nil if there is none. It does not block.
func (t *table) find(group *limitGroup, m major) *bucket {
	b, _ := t.findKey(group, m)
	return b
}

// findKey is find, and returns the key, too.
func (t *table) findKey(group *limitGroup, m major) (b *bucket, key uint64) {
	for key = t.hash(group, m); ; key++ {
		part := t.shard(key)
		if part == nil {
			return nil, key
		}
		b, ok := part.Load(key)
		if !ok {
			return nil, key
		}
		if b.group == group && b.major == m {
			return b, key
		}
	}
}

// findOrMake returns the bucket of a limit group and a major parameter, made if there is none, and whether there was.
func (t *table) findOrMake(group *limitGroup, m major, create func() *bucket) (b *bucket, found bool) {
	for key := t.hash(group, m); ; {
		b, found := t.makeShard(key).LoadOrCompute(key, func() (*bucket, bool) {
			t.count.Add(1)
			return create(), false
		})
		switch {
		case b.group == group && b.major == m:
			return b, found
		case b.collide():
			key++
		}
	}
}

// collide makes sure that the bucket stays where it is. It reports false if it is about to go.
func (b *bucket) collide() bool {
	b.collided.Store(true)
	return !b.evicted.Load()
}

// markEvicted makes a bucket that is locked one that is evicted, and reports that it did, unless the bucket has to stay. It is still to be
// removed.
func (t *table) markEvicted(b *bucket) bool {
	b.evicted.Store(true)
	if b.collided.Load() {
		b.evicted.Store(false)
		return false
	}
	return true
}

// remove takes a bucket out that is evicted.
func (t *table) remove(b *bucket) {
	if found, key := t.findKey(b.group, b.major); found == b {
		t.shard(key).Delete(key)
		t.count.Add(-1)
	}
}

// clear removes all buckets, each after a function was called with it.
func (t *table) clear(last func(*bucket)) {
	for i := range t.shards {
		part := t.shards[i].Load()
		if part == nil {
			continue
		}
		for key, b := range part.AllRelaxed() {
			last(b)
			if _, ok := part.LoadAndDelete(key); ok {
				t.count.Add(-1)
			}
		}
	}
}

// all iterates over the buckets, in no order. Those that come or go meanwhile may be missing.
func (t *table) all() iter.Seq[*bucket] {
	return func(yield func(*bucket) bool) {
		for i := range t.shards {
			part := t.shards[i].Load()
			if part == nil {
				continue
			}
			for _, b := range part.AllRelaxed() { // All takes a lock for each place, also where there is no bucket
				if !yield(b) {
					return
				}
			}
		}
	}
}

// size returns how many there are.
func (t *table) size() int { return int(t.count.Load()) }
