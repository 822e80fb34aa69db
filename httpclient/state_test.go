package httpclient_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/wire"
)

// stateOf returns the state of a transport that is closed, or was killed.
func stateOf(t *testing.T, transport *httpclient.Transport, clean bool) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, transport.WriteState(&b))
	if clean {
		require.NoError(t, transport.Close())
		b.Reset()
		require.NoError(t, transport.WriteState(&b))
	}
	return b.Bytes()
}

func TestStateOfATransportIsThatOfItsManagerToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := newDiscord(t, discordsim.Config{Rules: []discordsim.Rule{{Path: "**", Quota: discordsim.Fixed(5, time.Minute)}}})
		key := httpclient.WithStateKey([]byte("secret"))
		first := newTransport(t, server.RoundTripper(), key)
		for range 5 {
			response, err := first.RoundTrip(newRequest(t, "GET", messages, ""))
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
		}
		state := stateOf(t, first, true)
		assert.ErrorIs(t, newTransport(t, server.RoundTripper()).RestoreState(bytes.NewReader(state)), buckets.ErrState)
		assert.ErrorIs(t, newTransport(t, server.RoundTripper(), key).RestoreState(bytes.NewReader(state[:len(state)-1])), buckets.ErrState)
		lent := buckets.NewRESTBucketManager()
		require.NoError(t, lent.Start())
		defer lent.Close()
		require.NoError(t, newTransport(t, server.RoundTripper(), key, httpclient.WithManager(lent)).RestoreState(bytes.NewReader(state)))
		assert.Zero(t, lent.Stats().Buckets, "it is somebody else's")
		second := newTransport(t, server.RoundTripper(), key)
		require.NoError(t, second.RestoreState(bytes.NewReader(state)))
		assert.NotZero(t, second.Manager().Stats().Buckets)
		start := time.Now()
		response, err := second.RoundTrip(newRequest(t, "GET", messages, ""))
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, http.StatusOK, response.StatusCode)
		assert.InDelta(t, time.Minute, time.Since(start), float64(time.Second))
		assert.Error(t, second.RestoreState(bytes.NewReader(state)), "it is in use")
	})
}

func FuzzRestoreStateOfATransport(f *testing.F) {
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{1}, 64))
	f.Fuzz(func(t *testing.T, contents []byte) {
		if len(contents) > 1<<16 {
			return
		}
		transport := httpclient.NewTransport()
		defer transport.Close()
		var b bytes.Buffer
		require.NoError(t, transport.WriteState(&b))
		head := b.Bytes()[6 : 6+16+8] // of this transport's key
		state := wire.EndBlock(append(append(wire.BeginBlock('T', 2), head...), contents...))
		if transport.RestoreState(bytes.NewReader(state)) == nil {
			require.NoError(t, transport.WriteState(io.Discard))
		}
		_ = transport.RestoreState(bytes.NewReader(contents))
	})
}

func TestStateThatCannotBeWrittenIsAnError(t *testing.T) {
	t.Parallel()
	transport := newTransport(t, newScript(unauthorized))
	full := errors.New("disk full")
	reader, writer := io.Pipe()
	require.NoError(t, reader.CloseWithError(full))
	assert.ErrorIs(t, transport.WriteState(writer), full)

	unasked := newTransport(t, newScript(unauthorized))
	require.NoError(t, unasked.Close())
	assert.ErrorIs(t, unasked.WriteState(io.Discard), buckets.ErrClosed, "nobody has said before that it is wanted")
}
