package jobs_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/httpclient/jobs"
	"github.com/ratelight/ratelight/httpclient/rest"
)

func TestANonceIsMadeOfItsParts(t *testing.T) {
	t.Parallel()
	nonce := jobs.Nonce("river", "7")
	assert.Equal(t, nonce, jobs.Nonce("river", "7"))
	assert.Len(t, nonce, 24)
	for _, other := range [][]string{{"river", "8"}, {"river7"}, {"rive", "r7"}, {"river", "7", ""}, nil} {
		assert.NotEqual(t, nonce, jobs.Nonce(other...), other)
	}
}

func TestAMessageThatIsSentTwiceWithANonceIsCreatedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := discordtest.NewServer(t)
		client := newClient(t, server)
		message := jobs.WithNonce(map[string]any{"content": "hello", "nonce": 7}, jobs.Nonce("river", "7"))
		for range 2 {
			require.NoError(t, client.DoJSON(t.Context(), http.MethodPost, "/channels/1/messages", message, nil))
		}
		sent := server.Requests()
		assert.JSONEq(t, `{"content":"hello","enforce_nonce":true,"nonce":"`+jobs.Nonce("river", "7")+`"}`,
			string(sent[0].Body))
		assert.Equal(t, []bool{false, true}, []bool{sent[0].Repeated, sent[1].Repeated})
	})
}

func TestANonceThatCannotBeSetIsAnError(t *testing.T) {
	t.Parallel()
	failure := errors.New("no")
	for name, c := range map[string]struct {
		message any
		nonce   string
		want    string
	}{
		"a list":            {[]int{1}, "n", "not a JSON object"},
		"nothing":           {nil, "n", "not a JSON object"},
		"a failing encoder": {unencodable{failure}, "n", "no"},
		"no nonce":          {struct{}{}, "", "a nonce of 0 characters: want 1 to 25"},
		"a long nonce":      {struct{}{}, "12345678901234567890123456", "a nonce of 26 characters: want 1 to 25"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := json.Marshal(jobs.WithNonce(c.message, c.nonce))
			assert.ErrorContains(t, err, c.want)
		})
	}
	server := discordtest.NewServer(t)
	err := newClient(t, server).DoJSON(t.Context(), http.MethodPost, "/channels/1/messages", jobs.WithNonce(1, "n"), nil)
	assert.ErrorIs(t, err, rest.ErrBody)
	assert.Empty(t, server.Requests())
}

type unencodable struct{ err error }

func (u unencodable) MarshalJSON() ([]byte, error) { return nil, u.err }
