package httpclient_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// Everything once over real sockets. Nothing is asserted about how long it takes, only that the server had nothing to refuse.
func TestABurstOverLoopbackIsAnsweredWithoutARefusal(t *testing.T) {
	t.Parallel()
	server, err := discordsim.New(discordsim.Config{
		Rules: []discordsim.Rule{
			{Method: http.MethodPost, Path: "/channels/{id}/messages", Quota: discordsim.Fixed(5, 100*time.Millisecond)},
			{Method: http.MethodGet, Path: "/channels/{id}/messages", Quota: discordsim.Sliding(5, 100*time.Millisecond)},
			{Method: http.MethodPatch, Path: "/channels/{id}", Quota: discordsim.Leaky(5, 100*time.Millisecond)},
		},
		Global: discordsim.Unlimited(),
	})
	require.NoError(t, err)
	defer server.Close()
	url, err := server.Listen()
	require.NoError(t, err)
	below := &http.Transport{MaxIdleConnsPerHost: 20}
	transport := newTransport(t, below, anyHost...)
	client := &http.Client{Transport: transport}
	defer client.CloseIdleConnections()

	const each = 15
	var all sync.WaitGroup
	for _, kind := range []struct{ method, path string }{
		{http.MethodPost, "/messages"}, {http.MethodGet, "/messages"}, {http.MethodPatch, ""},
	} {
		for i := range each {
			all.Go(func() {
				path := fmt.Sprintf("%s/api/v10/channels/%d%s", url, 1+i%2, kind.path)
				r, err := http.NewRequest(kind.method, path, strings.NewReader(`{"content":"hello"}`))
				if !assert.NoError(t, err) {
					return
				}
				r.Header.Set("Authorization", authorization)
				response, err := client.Do(r)
				if !assert.NoError(t, err) {
					return
				}
				defer response.Body.Close()
				content, err := io.ReadAll(response.Body)
				assert.NoError(t, err)
				assert.Equal(t, http.StatusOK, response.StatusCode)
				assert.Equal(t, "{}", string(content))
			})
		}
	}
	all.Wait()
	report := server.Report()
	assert.Equal(t, 3*each, report.Accepted)
	assert.Zero(t, report.Avoidable.Total(), "%+v", server.Refusals())
	assert.Zero(t, report.Refused.Total(), "%+v", server.Refusals())
}
