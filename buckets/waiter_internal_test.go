package buckets

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/routes"
)

// What stands for the request of Acquire is used again for others, so no lease gives a place back to it.
func TestLeaseOfAcquireKeepsNoRequest(t *testing.T) {
	t.Parallel()
	m := NewRESTBucketManager()
	require.NoError(t, m.Start())
	defer m.Close()
	route, err := routes.CreateMessage.Compile("1")
	require.NoError(t, err)
	lease, err := m.Acquire(t.Context(), route, "Bot one")
	require.NoError(t, err)
	assert.Nil(t, lease.held.request)
	lease.Return()
	request := Request{Route: route, Authorization: "Bot one"}
	lease, err = m.AcquireRequest(t.Context(), &request)
	require.NoError(t, err)
	assert.Same(t, &request, lease.held.request)
	lease.Return()
}

// Nothing of a request, such as its token, is left in what is kept for others.
func TestWaiterThatIsKeptForOthersIsEmpty(t *testing.T) {
	t.Parallel()
	var pool waiterPool
	w := pool.get()
	w.own = &Request{Authorization: "Bot one"}
	w.request, w.held = w.own, &held{}
	pool.put(w)
	assert.Equal(t, &waiter{ready: w.ready, own: &Request{}}, w)
}
