package httpclient

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

type always struct{}

func (always) RoundTrip(request *http.Request) (*http.Response, error) {
	time.Sleep(time.Millisecond)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}")), Request: request}, nil
}

// Nothing is left of a transport that was closed: no timer fires any more.
func TestAClosedTransportLeavesNoTimer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		transport := NewTransport(WithBase(always{}))
		client := &http.Client{Transport: transport}
		response, err := client.Get("https://discord.com/api/v10/gateway")
		require.NoError(t, err)
		_, err = io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.NoError(t, transport.Close())
		require.NotNil(t, transport.deadlines.timer)
		require.False(t, transport.deadlines.timer.Stop(), "it would fire after Close")
	})
}
