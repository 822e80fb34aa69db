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

// stateOf returns the state of a transport: the one from its Close if clean is true, else the one of a killed process.
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
		server := newDiscord(t, everything(discordsim.Fixed(5, time.Minute)))
		key := httpclient.WithStateKey([]byte("secret"))
		first := newTransport(t, server.RoundTripper(), key)
		for range 5 {
			assertStatus(t, http.StatusOK, send(first, getChannel(t)))
		}
		state := stateOf(t, first, true)
		for name, option := range map[string]httpclient.Option{
			"none": nil, "another": httpclient.WithStateKey([]byte("wrong")),
		} {
			err := newTransport(t, server.RoundTripper(), option).RestoreState(bytes.NewReader(state))
			assert.ErrorIs(t, err, buckets.ErrState, "%s key", name)
		}
		damaged := newTransport(t, server.RoundTripper(), key).RestoreState(bytes.NewReader(state[:len(state)-1]))
		assert.ErrorIs(t, damaged, buckets.ErrState)
		second := newTransport(t, server.RoundTripper(), key)
		require.NoError(t, second.RestoreState(bytes.NewReader(state)))
		assert.NotZero(t, second.Manager().Stats().Buckets)
		waited := send(second, getChannel(t))
		assertStatus(t, http.StatusOK, waited)
		assert.InDelta(t, time.Minute, waited.took, float64(time.Second))
		assert.Error(t, second.RestoreState(bytes.NewReader(state)), "the manager is in use")
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
		head := b.Bytes()[6 : 6+16+8] // the header with the hash of this transport's key
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
	assert.ErrorIs(t, unasked.WriteState(io.Discard), buckets.ErrClosed, "no state was written or restored before Close")
}
