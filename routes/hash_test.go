package routes_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/routes"
)

func TestHashTellsRoutesApart(t *testing.T) {
	t.Parallel()
	routesByHash := map[uint64]routes.Route{0: {}}
	meet := func(r routes.Route) {
		other, met := routesByHash[r.Hash()]
		require.False(t, met, "%v and %v", r, other)
		routesByHash[r.Hash()] = r
	}
	for r := range routes.All() {
		meet(r)
	}
	meet(routes.DeleteYoungMessage)
	meet(routes.DeleteOldMessage)
	followUp, err := routes.ExecuteWebhook.Compile("1", followUpToken)
	require.NoError(t, err)
	meet(followUp.Route())
	made, err := routes.New("GET", "/new-thing/{id}")
	require.NoError(t, err)
	meet(made)
	flagged, err := routes.New("GET", "/new-thing/{id}", routes.OneShot)
	require.NoError(t, err)
	meet(flagged)

	assert.Zero(t, routes.Route{}.Hash())
	again, err := routes.New("get", "/new-thing/{id}")
	require.NoError(t, err)
	assert.Equal(t, made.Hash(), again.Hash())
	matched, err := routes.Match("POST", "/webhooks/2/"+followUpToken)
	require.NoError(t, err)
	assert.Equal(t, followUp.Route(), matched.Route())
	assert.Equal(t, followUp.Route().Hash(), matched.Route().Hash())
}
