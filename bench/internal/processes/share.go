package processes

import (
	"context"

	"github.com/ratelight/ratelight/buckets"
)

// share opens what processes share and returns the options that make a manager use it. Call close after the manager's.
func share(_ context.Context, _, _ string) (options []buckets.Option, close func(), err error) {
	return nil, func() {}, nil
}
