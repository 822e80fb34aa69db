package redis_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/redistest"
)

// BenchmarkRun measures one call of a short script on a server on the same host.
func BenchmarkRun(b *testing.B) {
	store := open(b, redistest.NewEngine(b).URL())
	keys := []string{key}
	b.Run("one at a time", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := store.Runner().Run(context.Background(), count, keys)
			require.NoError(b, err)
		}
	})
	b.Run("many at a time", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := store.Runner().Run(context.Background(), count, keys); err != nil {
					b.Error(err)
				}
			}
		})
	})
}
