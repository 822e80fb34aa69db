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

// newEdit returns an edit of a message that supersedes earlier ones.
func newEdit(t *testing.T, content string) *http.Request {
	t.Helper()
	r := newRequest(t, "PATCH", messages+"/2", fmt.Sprintf(`{"content":%q}`, content))
	r.Header.Set("X-Ratelight-Latest", "true")
	return r
}

// A thousand edits of one message in ten seconds, of which Discord accepts five in five seconds.
func TestOfAThousandEditsTheReaderSeesTheLatest(t *testing.T) {
	play(t, func(t *testing.T) {
		const edits, pace, window = 1000, 10 * time.Millisecond, 5 * time.Second
		w := newWorld(t, []discordtest.Rule{discordtest.Window("PATCH /channels/{id}/messages/{id}", 5, window)})
		var all []<-chan response
		for i := range edits {
			all = append(all, w.start(newEdit(t, fmt.Sprint(i))))
			time.Sleep(pace)
		}
		succeeded := 0
		for i, done := range all {
			got := <-done
			require.NoError(t, got.err)
			if got.StatusCode == http.StatusOK {
				succeeded++
				continue
			}
			require.NotEqual(t, edits-1, i)
			assertOwn(t, got, http.StatusConflict, "superseded")
			assert.LessOrEqual(t, got.took, pace, "edit %d waits until its successor comes, at most", i)
		}
		sent := w.discord.Requests()
		assert.LessOrEqual(t, len(sent), 11)
		assert.Len(t, sent, succeeded)
		assert.Empty(t, w.discord.Refused())
		assert.JSONEq(t, fmt.Sprintf(`{"content":"%d"}`, edits-1), string(sent[len(sent)-1].Body))
		for _, r := range sent {
			assert.NotContains(t, r.Header, "X-Ratelight-Latest")
		}
		t.Logf("%d sent", len(sent))
	})
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

func TestAnotherValueThanTrueIsRefused(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorld(t, nil)
		for _, value := range []string{"false", "1", "True", "yes"} {
			r := newEdit(t, "x")
			r.Header.Set("X-Ratelight-Latest", value)
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

func TestHeaderForTheLatestIsGivenOnce(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorld(t, nil)
		for _, values := range [][]string{{"true", "false"}, {"", "true"}, {"true, true"}} {
			r := newEdit(t, "x")
			r.Header["X-Ratelight-Latest"] = values
			assert.Equal(t, http.StatusBadRequest, w.do(r).StatusCode, "%q", values)
		}
		assert.Empty(t, w.discord.Requests())
	})
}
