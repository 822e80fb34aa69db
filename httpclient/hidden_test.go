package httpclient_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// channels is a simulated Discord where a channel's name may be changed twice in ten minutes. No header shows this
// limit.
func channels(quota discordsim.Quota) discordsim.Config {
	return discordsim.Config{Rules: []discordsim.Rule{{
		Method: http.MethodPatch, Path: "/channels/{id}", Quota: quota,
		SubLimits: []discordsim.SubLimit{{Fields: []string{"name"}, Quota: discordsim.Fixed(2, 10*time.Minute), Code: 20028}},
	}}}
}

func rename(t *testing.T) *http.Request {
	t.Helper()
	return newRequest(t, http.MethodPatch, "/api/v10/channels/1", `{"name":"new"}`)
}

func newTopic(t *testing.T) *http.Request {
	t.Helper()
	return newRequest(t, http.MethodPatch, "/api/v10/channels/1", `{"topic":"new"}`)
}

func TestRenamesWaitForTheirHiddenLimitAndTopicsPass(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := newDiscord(t, channels(discordsim.Fixed(5, 5*time.Second)))
		transport := newTransport(t, server.RoundTripper(), httpclient.WithMaxRateLimit(time.Hour))
		start := time.Now()
		assertStatus(t, http.StatusOK, send(transport, rename(t)), send(transport, rename(t)))
		third := send(transport, rename(t)) // the third rename meets the hidden limit
		time.Sleep(20 * time.Millisecond)
		fourth := send(transport, rename(t)) // the fourth waits without being sent
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, 1, server.Report().Refused.SubLimit)
		fifth := send(transport, rename(t))
		for range 3 {
			topic := send(transport, newTopic(t))
			assertStatus(t, http.StatusOK, topic)
			assert.Less(t, topic.took, 6*time.Second, "the topic waited longer than its own bucket requires")
		}

		assertStatus(t, http.StatusOK, third, fourth)
		assertTook(t, 10*time.Minute, time.Since(start))
		assertStatus(t, http.StatusOK, fifth)
		assertTook(t, 20*time.Minute, time.Since(start))
		report := server.Report()
		assert.Zero(t, report.Avoidable.Total())
		assert.LessOrEqual(t, report.Refused.Total(), 3)
	})
}
