package proxy_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient/discordtest"
)

// newEdit returns an edit of a message that supersedes earlier edits of it.
func newEdit(t *testing.T, content string) *http.Request {
	t.Helper()
	r := newRequest(t, "PATCH", messages+"/2", fmt.Sprintf(`{"content":%q}`, content))
	r.Header.Set("X-Ratelight-Latest", "true")
	return r
}

func TestAnEditSupersedesOnlyThoseOfItsBotAndMessage(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorld(t, []discordtest.Rule{discordtest.Window("PATCH /channels/{id}/messages/{id}", 1, 5*time.Second)})
		w.do(newEdit(t, "first"))
		otherBot := newEdit(t, "of another bot")
		otherBot.Header.Set("Authorization", "Bot other")
		require.Equal(t, http.StatusOK, w.do(otherBot).StatusCode)
		var others []<-chan response
		begin := func(r *http.Request) <-chan response {
			done := w.start(r)
			synctest.Wait()
			return done
		}
		older := begin(newEdit(t, "older"))
		again := newEdit(t, "of another bot")
		again.Header.Set("Authorization", "Bot other")
		plain := newEdit(t, "without the header")
		plain.Header.Del("X-Ratelight-Latest")
		others = append(others, begin(again), begin(plain))
		newer := begin(newEdit(t, "newer"))
		got := <-older
		assertOwn(t, got, http.StatusConflict, "superseded")
		assert.Equal(t, "superseded: PATCH /channels/{channel_id}/messages/{message_id} was never sent, because a newer "+
			"request with the same key took its place", got.error(t).Message)
		assert.Equal(t, 0, *got.error(t).Code)
		assert.Empty(t, got.Header.Get("Retry-After"))
		for _, done := range append(others, newer) {
			assert.Equal(t, http.StatusOK, (<-done).StatusCode)
		}
	})
}

func TestAnotherValueThanOneTrueIsRefused(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorld(t, nil)
		for _, values := range [][]string{
			{"false"}, {"1"}, {"True"}, {"yes"}, {"true", "false"}, {"", "true"}, {"true, true"},
		} {
			r := newEdit(t, "x")
			r.Header["X-Ratelight-Latest"] = values
			got := w.do(r)
			assertOwn(t, got, http.StatusBadRequest, "bad-request")
			assert.Contains(t, got.error(t).Message, "X-Ratelight-Latest is malformed: expected true")
		}
		r := newEdit(t, "x")
		r.Header.Set("X-Ratelight-Latest", "")
		assert.Equal(t, http.StatusOK, w.do(r).StatusCode)
		assert.Len(t, w.discord.Requests(), 1)
	})
}
