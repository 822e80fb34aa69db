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
	"github.com/ratelight/ratelight/routes"
)

// No printed value, error, log line or JSON may contain a credential or the token of a webhook or interaction.
func TestTokensAppearNowhere(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const credential = "Bot MTk4NjIyNDgzNDcxOTI1MjQ4.secret"
		token := interactionToken(12345)
		m := started(t, buckets.WithMaxWaiting(1))
		var seen []any
		see := func(values ...any) { seen = append(seen, values...) }

		request := buckets.Request{Route: followUp(12345), Authorization: credential}
		never := buckets.ContextWithMaxWait(background, 0)
		probe := call(background, m, request)
		waiting := call(background, m, request)
		full, tooLong := call(background, m, request),
			call(never, m, buckets.Request{Route: followUp(12345), Authorization: credential})
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
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		for _, authorization := range []string{"", "Bot one", "Bot two"} {
			for n := range 2 {
				as(m, authorization, message(1)).update(limited("messages", 50, 40, time.Minute))
				as(m, authorization, followUp(n)).update(limited("follow-ups", 50, 40, time.Minute))
			}
		}
		credentials, tokens := make(map[string]bool), make(map[[2]string]bool)
		for b := range m.Buckets() {
			switch b.Hash {
			case "messages":
				credentials[b.Authentication] = true
				assert.Regexp(t, `^(-|#[0-9a-f]+)$`, b.Authentication)
			case "follow-ups":
				tokens[[2]string{b.Authentication, b.Major}] = true
				assert.Equal(t, "-", b.Authentication, "the limit belongs to the token, whatever the credential is")
				assert.Regexp(t, `^77:#[0-9a-f]+$`, b.Major)
			}
		}
		assert.Len(t, credentials, 3)
		assert.Len(t, tokens, 2)
	})
}

// printed returns everything that fmt, slog and encoding/json write for a value.
func printed(value any) string {
	var out bytes.Buffer
	for _, format := range []string{
		"%v", "%+v", "%#v", "%s", "%q", "%+q", "%#q", "%x", "%X", "%d", "%t", "%c", "%U", "%y", "%-400s", "%T",
	} {
		fmt.Fprintf(&out, format+"\n", value)
	}
	fmt.Fprintln(&out, value)
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("text", "value", value, slog.Group("group", "value", value))
	}
	text, err := json.Marshal(value)
	return fmt.Sprint(out.String(), string(text), err)
}

func TestALeaseIsPrintedWithoutItsRoute(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		const token = "webhook-secret_0123456789"
		lease, err := m.Acquire(background, compile(routes.ExecuteWebhook, "77", token), bot)
		require.NoError(t, err)
		for _, value := range []any{lease, &lease, []buckets.Lease{lease}, buckets.Lease{}} {
			text := printed(value)
			assert.NotContains(t, text, token)
			assert.NotContains(t, text, fmt.Sprintf("%x", token))
			assert.NotContains(t, text, bot)
		}
		lease.Return()
	})
}

// Other limiters get Requests and may log them. So no form of a printed Request may contain the Request's secrets.
func TestARequestIsPrintedWithoutItsSecrets(t *testing.T) {
	t.Parallel()
	const credential, token = "Bot MTk4NjIyNDgzNDcxOTI1MjQ4.secret", "webhook-secret_0123456789"
	route, err := routes.Match("POST", "/webhooks/5/"+token+"/slack")
	require.NoError(t, err)
	r := buckets.Request{Route: route, Authorization: credential, Server: "localhost:8080",
		Fields: func() []string { return []string{"name"} }}
	texts := map[string]string{"private pointer": fmt.Sprintf("%v %+[1]v %#[1]v", struct{ r *buckets.Request }{&r})}
	for name, value := range map[string]any{
		"value": r, "pointer": &r, "nil": (*buckets.Request)(nil), "zero": buckets.Request{}, "values": []buckets.Request{r},
		"pointers": []*buckets.Request{&r}, "array": [1]buckets.Request{r}, "any": []any{r, &r},
		"map": map[string]buckets.Request{"r": r}, "map of pointers": map[string]*buckets.Request{"r": &r},
		"struct": struct{ Request buckets.Request }{r}, "struct with a pointer": struct{ Request *buckets.Request }{&r},
		"embedded": struct{ buckets.Request }{r}, "embedded pointer": struct{ *buckets.Request }{&r},
	} {
		texts[name] = printed(value)
	}
	for name, text := range texts {
		for _, secret := range []string{credential, "MTk4NjIyNDgzNDcxOTI1MjQ4", "secret", token} {
			assert.NotContains(t, text, secret, name)
			assert.NotContains(t, text, fmt.Sprintf("%x", secret), name)
			assert.NotContains(t, text, fmt.Sprintf("%X", secret), name)
		}
	}
	assert.Equal(t, "POST /webhooks/5/…/slack at localhost:8080", fmt.Sprint(r))
	assert.Equal(t, "POST /webhooks/5/…/slack at localhost:8080", fmt.Sprintf("%+v", &r))
	assert.Equal(t, `"POST /channels/1/messages"`,
		fmt.Sprintf("%q", buckets.Request{Route: message(1), Authorization: credential}))
}
