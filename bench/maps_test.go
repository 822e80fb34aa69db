package main

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/puzpuzpuz/xsync/v4"
)

// BenchmarkMaps is why the table of buckets is made of xsync's maps: what a look-up costs, with one key in a thousand
// made and removed again, compared with the standard library's map for concurrent use and with an ordinary one behind a
// lock. B/entry is what a million entries take.
func BenchmarkMaps(b *testing.B) {
	type value struct{ n int }
	one := &value{1}
	const keys = 100_000
	ours := xsync.NewMap[uint64, *value]()
	var standard sync.Map
	var mu sync.RWMutex
	plain := map[uint64]*value{}
	for key := range uint64(keys) {
		ours.Store(key, one)
		standard.Store(key, one)
		plain[key] = one
	}
	contenders := []contender{
		{"xsync", func(i int) {
			key := uint64(i*7919) % keys
			if _, ok := ours.Load(key); !ok {
				panic("it was stored")
			}
			if i%1000 == 0 {
				ours.Store(keys+uint64(i), one)
				ours.Delete(keys + uint64(i))
			}
		}},
		{"sync.Map", func(i int) {
			key := uint64(i*7919) % keys
			if _, ok := standard.Load(key); !ok {
				panic("it was stored")
			}
			if i%1000 == 0 {
				standard.Store(keys+uint64(i), one)
				standard.Delete(keys + uint64(i))
			}
		}},
		{"locked", func(i int) {
			key := uint64(i*7919) % keys
			mu.RLock()
			_, ok := plain[key]
			mu.RUnlock()
			if !ok {
				panic("it was stored")
			}
			if i%1000 == 0 {
				mu.Lock()
				plain[keys+uint64(i)] = one
				delete(plain, keys+uint64(i))
				mu.Unlock()
			}
		}},
	}
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("look-ups/%d", callers), func(b *testing.B) {
			compare(b, callers, func(int) {}, contenders)
		})
	}
	for name, fill := range map[string]func() any{
		"xsync": func() any {
			m := xsync.NewMap[uint64, *value]()
			for key := range uint64(million) {
				m.Store(key, one)
			}
			return m
		},
		"sync.Map": func() any {
			m := new(sync.Map)
			for key := range uint64(million) {
				m.Store(key, one)
			}
			return m
		},
		"locked": func() any {
			m := map[uint64]*value{}
			for key := range uint64(million) {
				m[key] = one
			}
			return &m
		},
	} {
		b.Run("memory/"+name, func(b *testing.B) {
			for range b.N {
				before := heap()
				filled := fill()
				after := heap()
				b.ReportMetric(perBucket(after-before), "B/entry")
				runtime.KeepAlive(filled)
			}
		})
	}
}
