package shared_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/redistest"
)

func TestStoreNeedsARunner(t *testing.T) {
	t.Parallel()
	var none *redistest.Memory
	for _, runner := range []shared.Runner{nil, none} {
		_, err := shared.New(runner)
		assert.ErrorContains(t, err, "runner is nil")
	}
}

func TestNilOptionsAreIgnored(t *testing.T) {
	t.Parallel()
	_, err := shared.New(&redistest.Memory{}, nil, shared.WithApplication("my-bot"), nil)
	require.NoError(t, err)
	_, err = shared.New(&redistest.Memory{}, nil, shared.WithApplication(""))
	require.Error(t, err, "those that follow count")
}
