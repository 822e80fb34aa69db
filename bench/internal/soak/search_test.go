package soak

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/puzpuzpuz/xsync/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

func interaction(n uint64) string { return secret(interactionPrefix, n) }

// found reports whether what a search does leads to a finding.
func found(search func(*searcher)) bool {
	s := newSearcher()
	search(s)
	_, _, findings := s.results()
	return len(findings) > 0
}

func TestATokenIsFoundInEveryForm(t *testing.T) {
	t.Parallel()
	token := interaction(123_456_789)
	for _, form := range []string{
		token, strings.ToLower(token), strings.ToUpper(token), url.QueryEscape(token), fmt.Sprintf("%q", token), token[20:37], token[len(token)-17:],
		fmt.Sprint([]byte(token)), fmt.Sprintf("%#v", []byte(token)), fmt.Sprintf("%x", token), hex.EncodeToString([]byte(token)),
		base64.StdEncoding.EncodeToString([]byte(token)), base64.URLEncoding.EncodeToString([]byte("a" + token)),
		base64.StdEncoding.EncodeToString([]byte("Bot " + botB(1))),
	} {
		assert.True(t, found(func(s *searcher) { s.text("test", []byte("before "+form+" after")) }), form)
	}
	assert.False(t, found(func(s *searcher) { s.text("test", []byte("POST /channels/{channel_id}/messages "+interactionPrefix)) }))
}

func TestTokensDiffer(t *testing.T) {
	t.Parallel()
	assert.NotEqual(t, interaction(1), interaction(2))
	assert.NotEqual(t, interaction(1), interaction(1_000_001))
}

func TestATokenIsFoundWhereverItIsSaid(t *testing.T) {
	t.Parallel()
	token := secret("w", 7)
	for name, search := range map[string]func(*searcher){
		"log":           func(s *searcher) { s.logger().Debug("sent", slog.String("to", token)) },
		"attribute key": func(s *searcher) { s.logger().With(token, 1).Debug("sent") },
		"error inside":  func(s *searcher) { s.err("error", fmt.Errorf("outside: %w", errors.New(token))) },
		"event": func(s *searcher) {
			s.transportHooks().Request(t.Context(), httpclient.RequestEvent{Route: "POST /" + token})
		},
		"error of an event": func(s *searcher) {
			s.transportHooks().Response(t.Context(), httpclient.ResponseEvent{Err: errors.New(token)})
		},
	} {
		assert.True(t, found(search), name)
	}
	outer := &url.Error{Op: "Post", URL: "/" + token, Err: errors.New("refused")}
	assert.False(t, found(func(s *searcher) { s.err("error", outer) }), "what net/http adds is its own affair")
}

func TestADumpLooksBehindEverything(t *testing.T) {
	t.Parallel()
	token := secret("w", 7)
	concurrent := xsync.NewMap[string, *[]string]()
	concurrent.Store("key", &[]string{"", token})
	keys := xsync.NewMap[string, int]()
	keys.Store(token, 1)
	var pointer atomic.Pointer[string]
	pointer.Store(&token)
	var standard sync.Map
	standard.Store(1, token)
	type hidden struct {
		any
		next *hidden
	}
	ring := &hidden{any: map[int]any{1: [2][]byte{nil, []byte(token)}}}
	ring.next = ring
	for name, value := range map[string]any{
		"unexported, in a ring": ring, "values of a concurrent map": &hidden{any: concurrent}, "its keys": keys,
		"atomic pointer": &hidden{any: &pointer}, "map of the standard library": &standard, "what was cut off": [][]string{[]string{token}[:0]},
	} {
		assert.True(t, found(func(s *searcher) { s.dump("test", value) }), name)
	}
	assert.False(t, found(func(s *searcher) { s.dump("test", &hidden{any: []any{1, "", nil, (*hidden)(nil)}}) }))
}

// A request that waits has to keep its path somewhere. When it is gone, so is the token: the search would see one that
// stayed.
func TestADumpOfATransportSeesWhatWaits(t *testing.T) {
	t.Parallel()
	if raceDetector {
		t.Skip("the race detector does not see that nothing moves")
	}
	synctest.Test(t, func(t *testing.T) {
		server, err := discordsim.New(discordsim.Config{Latency: discordsim.RoundTrip(time.Second)})
		require.NoError(t, err)
		defer server.Close()
		transport := httpclient.NewTransport(httpclient.WithBase(server.RoundTripper()))
		defer transport.Close()
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				response, err := (&http.Client{Transport: transport}).Get(discordsim.BaseURL + "/webhooks/1/" + secret("w", 1))
				if assert.NoError(t, err) {
					response.Body.Close()
				}
			})
		}
		synctest.Wait()
		assert.True(t, found(func(s *searcher) { s.dump("transport", transport) }), "two wait for the first")
		group.Wait()
		synctest.Wait()
		assert.False(t, found(func(s *searcher) { s.dump("transport", transport) }))
	})
}
