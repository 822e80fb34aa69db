package shared_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/redissim"
)

func TestStoreNeedsAnEngine(t *testing.T) {
	t.Parallel()
	var none *redissim.Server
	for _, engine := range []shared.Engine{nil, shared.OnScripts(nil), shared.OnScripts(none)} {
		_, err := shared.New(engine)
		assert.ErrorContains(t, err, "engine is nil")
	}
}

func TestNilOptionsAreIgnored(t *testing.T) {
	t.Parallel()
	_, err := shared.New(shared.OnScripts(&redissim.Server{}), nil, shared.WithApplication("my-bot"), nil)
	require.NoError(t, err)
	_, err = shared.New(shared.OnScripts(&redissim.Server{}), nil, shared.WithApplication(""))
	require.Error(t, err, "those that follow count")
}
