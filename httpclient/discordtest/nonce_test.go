package discordtest_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient/discordtest"
)

const (
	enforced = `{"content":"hello","nonce":"n","enforce_nonce":true}`
	null     = `{"nonce":null,"enforce_nonce":true}`
)

// numbered returns a rule that answers each message with the next number.
func numbered() discordtest.Rule {
	n := 0
	return discordtest.Handle(create, func(w http.ResponseWriter, _ *http.Request) {
		n++
		_, _ = w.Write([]byte(strconv.Itoa(n)))
	})
}

func TestAMessageIsCreatedOnceForEachEnforcedNonce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body, again string
		header      []string
		later       time.Duration
		created     bool // the second request also creates a message
	}{
		"the same":             {body: enforced, again: enforced},
		"another content":      {body: enforced, again: `{"nonce":"n","enforce_nonce":true}`},
		"minutes later":        {body: enforced, again: enforced, later: 4 * time.Minute},
		"when it is forgotten": {body: enforced, again: enforced, later: 5 * time.Minute, created: true},
		"another nonce":        {body: enforced, again: `{"nonce":"m","enforce_nonce":true}`, created: true},
		"another author":       {body: enforced, again: enforced, header: []string{"Authorization", "Bot b"}, created: true},
		"not enforced":         {body: enforced, again: `{"nonce":"n","enforce_nonce":false}`, created: true},
		"enforced later":       {body: `{"nonce":"n"}`, again: enforced, created: true},
		"no nonce":             {body: `{"enforce_nonce":true}`, again: `{"enforce_nonce":true}`, created: true},
		"null":                 {body: null, again: null, created: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, server *discordtest.Server) {
				first := answered(t, server.Client(), http.MethodPost, base+messages, c.body)
				time.Sleep(c.later)
				second := answered(t, server.Client(), http.MethodPost, base+messages, c.again, c.header...)
				assert.Equal(t, []int{200, 200}, []int{first.status, second.status})
				assert.Equal(t, c.created, first.body != second.body)
				assert.Equal(t, []bool{false, !c.created}, []bool{server.Requests()[0].Repeated, server.Requests()[1].Repeated})
			}, numbered())
		})
	}
}

func TestARefusedMessageWasNotCreated(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]discordtest.Rule{
		"by an answer": discordtest.Answer(create, 403, nil).Nth(1),
		"by a handler": discordtest.Handle(create,
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }).Nth(1),
		"by a limit":                    discordtest.Refuse(create, discordtest.User, time.Second).Nth(1),
		"lost on the way to the server": discordtest.Cut(create).Nth(1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, server *discordtest.Server) {
				_, _ = send(t, server.Client(), http.MethodPost, base+messages, enforced)
				time.Sleep(time.Second)
				answered(t, server.Client(), http.MethodPost, base+messages, enforced)
				for _, r := range server.Requests() {
					assert.False(t, r.Repeated)
				}
			}, rule)
		})
	}
}

func TestAMessageWhoseAnswerWasLostIsNotCreatedAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, server *discordtest.Server) {
		_, err := send(t, server.Client(), http.MethodPost, base+messages, enforced)
		require.Error(t, err)
		a := answered(t, server.Client(), http.MethodPost, base+messages, enforced)
		assert.Equal(t, `{"id":"7"}`, a.body)
		assert.True(t, server.Requests()[1].Repeated)
	}, discordtest.Answer(create, 200, `{"id":"7"}`), discordtest.Lose(create).Nth(1))
}
