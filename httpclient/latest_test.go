package httpclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/ratelimits"
)

const edited = messages + "/2"

// newEdit returns a request that edits a message and supersedes earlier edits of the same message.
func newEdit(t *testing.T, content string) *http.Request {
	t.Helper()
	r := newRequest(t, http.MethodPatch, edited, fmt.Sprintf(`{"content":%q}`, content))
	return r.WithContext(httpclient.ContextWithLatest(t.Context()))
}

func assertSuperseded(t *testing.T, c *call, again bool) {
	t.Helper()
	var superseded *ratelimits.SupersededError
	if assert.ErrorAs(t, c.wait().err, &superseded) {
		assert.Equal(t, again, superseded.Again)
	}
}

// A request supersedes another one only if both have the option, the same method and the same path. If the caller gives
// a key, the keys are compared instead of the paths.
func TestLatestComparesMethodAndPath(t *testing.T) {
	bubble(t, func(t *testing.T) {
		transport := newTransport(t, newScript(answer(http.StatusOK, "{}")))
		transport.Manager().Throttle(time.Minute)
		latest := httpclient.ContextWithLatest(t.Context())
		start := func(ctx context.Context, method, path string) *call {
			c := send(transport, newRequest(t, method, path, "{}").WithContext(ctx))
			synctest.Wait()
			return c
		}
		older := start(latest, http.MethodPatch, edited)
		others := []*call{
			start(latest, http.MethodPut, edited), start(latest, http.MethodPatch, messages+"/3"),
			start(t.Context(), http.MethodPatch, edited), start(t.Context(), http.MethodPatch, edited),
			start(buckets.ContextWithSupersedes(latest, "board"), http.MethodPatch, edited),
		}
		assert.False(t, older.over())
		newer := start(latest, http.MethodPatch, edited+"?with_components=true")
		assertSuperseded(t, older, false)
		board := start(buckets.ContextWithSupersedes(t.Context(), "board"), http.MethodPatch, messages+"/4")
		assertSuperseded(t, others[4], false)
		assertStatus(t, http.StatusOK, append(others[:4], newer, board)...)
	})
}

// After a 429 a request waits again. If a newer request supersedes the waiting request, the waiting request must not be
// sent a second time.
func TestARefusedEditIsSuperseded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(refuse("user", "5"), answer(http.StatusOK, "{}"))
		transport := newTransport(t, below)
		older := send(transport, newEdit(t, "old"))
		time.Sleep(time.Second)
		newer := send(transport, newEdit(t, "new"))
		assertSuperseded(t, older, true)
		assertStatus(t, http.StatusOK, newer)
		assert.Len(t, below.requests(), 2)
	})
}

// In the pause after a failure, a request does not wait in the manager. If a newer request supersedes it during the
// pause, the older request must fail at the end of the pause, and must not be sent again.
func TestAnEditThatPausesIsSupersededWhenItComesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(answer(http.StatusBadGateway, "<html>", "Retry-After: 3"), answer(http.StatusOK, "{}"))
		transport := newTransport(t, below, httpclient.WithAttempts(httpclient.Attempts{Mode: httpclient.UnsafeRetries}))
		older := send(transport, newEdit(t, "old"))
		synctest.Wait()
		transport.Manager().Throttle(10 * time.Second)
		newer := send(transport, newEdit(t, "new"))
		time.Sleep(time.Second)
		assert.False(t, older.over())
		assertSuperseded(t, older, true)
		assert.InDelta(t, 3, older.took.Seconds(), 0.2)
		assertStatus(t, http.StatusOK, newer)
		assert.Len(t, below.requests(), 2)
	})
}

// If a new edit would supersede a waiting request, the prediction for the edit must assume that the edit takes the
// place of that request.
func TestPredictKnowsWhatIsSuperseded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		transport := newTransport(t, newScript(answer(http.StatusOK, "{}", limitHeaders(
			"X-RateLimit-Limit: 1", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset-After: 10")...)))
		all := []*call{send(transport, newEdit(t, "first")).wait(), send(transport, newEdit(t, "older"))}
		synctest.Wait()
		assert.InDelta(t, 10, transport.Predict(newEdit(t, "newer")).Wait.Seconds(), 0.1)
		other := newRequest(t, http.MethodPatch, edited, "{}")
		assert.InDelta(t, 20, transport.Predict(other).Wait.Seconds(), 0.1)
		assertStatus(t, http.StatusOK, all...)
	})
}

// A program edits a message with its status whenever something happens. Only the latest content matters.
func ExampleContextWithLatest() {
	server := discordtest.NewServer(nil, discordtest.Window("PATCH /channels/{id}/messages/{id}", 1, time.Second))
	defer server.Close()
	transport := httpclient.NewTransport(standIn(server))
	defer transport.Close()
	client := &http.Client{Transport: transport}

	show := func(status string) error {
		body := strings.NewReader(fmt.Sprintf(`{"content": %q}`, status))
		request, err := http.NewRequestWithContext(httpclient.ContextWithLatest(context.Background()), http.MethodPatch,
			"https://discord.com/api/v10/channels/1/messages/2", body)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		var superseded *ratelimits.SupersededError
		if errors.As(err, &superseded) {
			return nil // a newer status is waiting or has been sent
		}
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
	var all sync.WaitGroup
	for percent := range 101 {
		all.Go(func() {
			if err := show(fmt.Sprintf("%d %%", percent)); err != nil {
				fmt.Println(err)
			}
		})
	}
	all.Wait()
	fmt.Println("sent at once, and a second later:", len(server.Requests()))
	// Output: sent at once, and a second later: 2
}

// The body of an older edit arrives slowly. The older edit must neither be sent after a newer one nor supersede it.
func TestSlowBodyOfAnOlderEditSupersedesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := newScript(answer(http.StatusOK, "{}"))
		transport := newTransport(t, below)
		r, w := io.Pipe()
		slow := newEdit(t, "")
		slow.Body, slow.GetBody, slow.ContentLength = r, nil, -1
		older := send(transport, slow)
		synctest.Wait()
		transport.Manager().Throttle(10 * time.Second)
		time.Sleep(time.Second)
		newer := send(transport, newEdit(t, "new"))
		synctest.Wait()
		go func() {
			io.WriteString(w, `{"content":"old"}`)
			w.Close()
		}()
		synctest.Wait()
		assert.False(t, newer.over(), "the older edit must not supersede the newer one")
		time.Sleep(15 * time.Second)
		require.NoError(t, newer.wait().err)
		errorAs[*ratelimits.SupersededError](t, older.wait().err)
	})
}
