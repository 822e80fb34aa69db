package buckets_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
)

// Neither credentials nor the tokens of webhooks and interactions may be seen in anything that can be printed.
func TestTokensAppearNowhere(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		const credential = "Bot MTk4NjIyNDgzNDcxOTI1MjQ4.secret"
		token := interactionToken(12345)
		m := started(t, buckets.WithMaxWaiting(1))
		var seen []any
		see := func(values ...any) { seen = append(seen, values...) }

		request := buckets.Request{Route: followUp(12345), Authorization: credential}
		never := buckets.ContextWithMaxWait(context.Background(), 0)
		probe := call(context.Background(), m, request)
		waiting := call(context.Background(), m, request)
		full, tooLong := call(context.Background(), m, request), call(never, m, buckets.Request{Route: followUp(12345), Authorization: credential})
		require.Error(t, full.failed())
		require.Error(t, tooLong.failed())
		see(full.failed(), tooLong.failed())
		for b := range m.Buckets() { // UNKNOWN
			see(b)
		}
		probe.update(limited("follow-ups", 5, 0, time.Minute))
		deadline, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		late := call(deadline, m, request)
		require.Error(t, late.failed())
		see(late.failed(), m.Stats(), waiting.request.Route)
		for b := range m.Buckets() {
			see(b)
		}
		require.NoError(t, m.Close())
		see(waiting.failed())

		var logged bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&logged, nil))
		for _, value := range seen {
			for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
				fmt.Fprintf(&logged, format, value)
			}
			logger.Info("seen", "value", value)
			text, err := json.Marshal(value)
			require.NoError(t, err)
			logged.Write(text)
		}
		for _, secret := range []string{credential, "MTk4NjIyNDgzNDcxOTI1MjQ4", "secret", token, token[8:]} {
			assert.NotContains(t, logged.String(), secret)
			assert.NotContains(t, logged.String(), fmt.Sprintf("%x", secret))
		}
	})
}

func TestSnapshotsTellCredentialsAndTokensApart(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		m := started(t)
		for _, authorization := range []string{"", "Bot one", "Bot two"} {
			for n := range 2 {
				as(m, authorization, followUp(n)).update(limited("follow-ups", 5, 4, time.Minute))
			}
		}
		seen := make(map[[2]string]bool)
		for b := range m.Buckets() {
			if b.Hash == "follow-ups" {
				seen[[2]string{b.Authentication, b.Major}] = true
				assert.Regexp(t, `^(-|#[0-9a-f]+)$`, b.Authentication)
				assert.Regexp(t, `^77:#[0-9a-f]+$`, b.Major)
			}
		}
		assert.Len(t, seen, 6)
	})
}
