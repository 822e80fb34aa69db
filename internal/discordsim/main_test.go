package discordsim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is a whole second, so that aligned windows of a second begin with the world.
var start = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return start.Add(d) }

const ms = time.Millisecond

func newWorld(t testing.TB, config Config) *World {
	t.Helper()
	w, err := NewWorld(start, config)
	require.NoError(t, err)
	return w
}

// post is a message to channel 1 by the bot of these tests.
var post = Request{Method: "POST", Path: "/api/v10/channels/1/messages", Authorization: "Bot a"}

// messages returns a world with a rule for messages; its method and path are set here.
func messages(t testing.TB, rule Rule, more ...func(*Config)) *World {
	t.Helper()
	rule.Method, rule.Path = "POST", "/channels/{id}/messages"
	config := Config{Rules: []Rule{rule}}
	for _, change := range more {
		change(&config)
	}
	return newWorld(t, config)
}

// send handles n requests at one moment. It does not deliver the answers.
func send(w *World, now time.Duration, n int, request Request) (responses []*Response) {
	for range n {
		responses = append(responses, w.Handle(at(now), request))
	}
	return responses
}

// statuses lists the statuses of answers.
func statuses(responses []*Response) (list []int) {
	for _, response := range responses {
		list = append(list, response.Status)
	}
	return list
}

// with returns a copy of a request with another path.
func with(request Request, path string) Request {
	request.Path = path
	return request
}
