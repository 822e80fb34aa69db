package httpclient_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

func TestCloseEndsWhatWaitsAndLeavesWhatIsUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := newDiscord(t, discordsim.Config{
			Default: &discordsim.Rule{
				Path: "**", Quota: discordsim.Fixed(1, time.Minute), Faults: []discordsim.Fault{{Delay: 5 * time.Second}},
			},
		})
		transport := newTransport(t, server.RoundTripper())
		underWay := send(transport, newMessage(t))
		synctest.Wait()
		var waiting []*call
		for range 3 { // these requests wait for the discovery of the route
			waiting = append(waiting, send(transport, newMessage(t)))
		}
		time.Sleep(time.Second)

		require.NoError(t, transport.Close())
		synctest.Wait()
		for _, c := range waiting {
			require.True(t, c.over())
			assert.ErrorIs(t, c.err, buckets.ErrClosed)
			assertTook(t, time.Second, c.took)
		}
		assert.False(t, underWay.over(), "Close cut off a request in flight")
		assertStatus(t, http.StatusOK, underWay)
		assert.Equal(t, 1, server.Report().Requests)
	})
}

func TestAClosedTransportRefusesRequests(t *testing.T) {
	t.Parallel()
	below := newScript(answer(http.StatusOK, "{}"))
	transport := newTransport(t, below)
	require.NoError(t, transport.Close())
	require.NoError(t, transport.Close(), "Close may be called twice")

	var bodies ledger
	r := newMessage(t)
	r.Body = bodies.open(strings.NewReader("{}"))
	_, err := transport.RoundTrip(r)
	require.ErrorIs(t, err, buckets.ErrClosed)
	bodies.assertClosed(t)
	assert.Empty(t, below.requests())
}

func TestTransportsShareTheLimitsOfAManager(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := newDiscord(t,
			discordsim.Config{Default: &discordsim.Rule{Path: "**", Quota: discordsim.Fixed(1, time.Second)}})
		manager := newManager(t)
		one := newTransport(t, server.RoundTripper(), httpclient.WithLimiter(manager))
		other := newTransport(t, server.RoundTripper(), httpclient.WithLimiter(manager))
		assert.Same(t, manager, one.Manager())
		assert.Same(t, manager, other.Manager())

		assertStatus(t, http.StatusOK, send(one, newMessage(t)))
		second := send(other, newMessage(t))
		assertStatus(t, http.StatusOK, second)
		assert.GreaterOrEqual(t, second.took, time.Second,
			"the request did not wait although the other transport had used up the limit")

		require.NoError(t, one.Close())
		assert.True(t, manager.IsAlive(), "closed by a transport that does not own it")
		assert.ErrorIs(t, send(one, newMessage(t)).wait().err, buckets.ErrClosed)
		assertStatus(t, http.StatusOK, send(other, newMessage(t)))
		assert.Zero(t, server.Report().Refused.Total())
	})
}

func TestAManagerThatIsNotStartedIsToldOf(t *testing.T) {
	t.Parallel()
	transport := newTransport(t, newScript(answer(http.StatusOK, "{}")),
		httpclient.WithLimiter(buckets.NewRESTBucketManager()))
	_, err := transport.RoundTrip(newMessage(t))
	assert.ErrorIs(t, err, buckets.ErrNotStarted)
}

func TestCloseIdleConnectionsReachesTheTransportBelow(t *testing.T) {
	t.Parallel()
	below := &idler{}
	(&http.Client{Transport: newTransport(t, below)}).CloseIdleConnections()
	assert.Equal(t, 1, below.closed)
	assert.NotPanics(t, newTransport(t, newScript()).CloseIdleConnections, "the base has no CloseIdleConnections")
}

type idler struct {
	http.RoundTripper
	closed int
}

func (i *idler) CloseIdleConnections() { i.closed++ }
