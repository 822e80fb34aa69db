// Package pause waits, as long as somebody still wants it.
package pause

import (
	"context"
	"time"
)

// For waits for d, or until the context ends, whose error it then returns. Zero or less does not wait.
func For(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
