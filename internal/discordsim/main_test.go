package discordsim

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is a whole second, so that the first aligned window of a second begins when the world begins.
var start = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return start.Add(d) }

const (
	ms     = time.Millisecond
	second = time.Second
)

func newWorld(t testing.TB, config Config) *World {
	t.Helper()
	w, err := NewWorld(start, config)
	require.NoError(t, err)
	return w
}

// post is a request by the bot of these tests that sends a message to channel 1.
var post = Request{Method: "POST", Path: "/api/v10/channels/1/messages", Authorization: "Bot a"}

// by returns a request of the bot with the given method and path. fields are the names of the members in its body.
func by(method, path string, fields ...string) Request {
	return Request{Method: method, Path: path, Authorization: post.Authorization, Fields: fields}
}

// with returns a copy of a request with another path.
func with(request Request, path string) Request {
	request.Path = path
	return request
}

// messages returns a world with a rule for messages. It sets the rule's method and path.
func messages(t testing.TB, rule Rule, more ...func(*Config)) *World {
	t.Helper()
	rule.Method, rule.Path = "POST", "/channels/{id}/messages"
	config := Config{Rules: []Rule{rule}}
	for _, change := range more {
		change(&config)
	}
	return newWorld(t, config)
}

func globalOf(quota Quota) func(*Config) { return func(c *Config) { c.Global = quota } }

// send lets the world process n requests at one moment. It does not deliver the answers.
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

// hashes lists the bucket hashes that answers name.
func hashes(responses []*Response) (list []string) {
	for _, response := range responses {
		list = append(list, response.Header.Get(headerBucket))
	}
	return list
}

// count returns how many answers are refusals of the class.
func count(responses []*Response, class Class) (n int) {
	for _, response := range responses {
		if response.Class == class {
			n++
		}
	}
	return n
}

// reasons maps the words that stories use to verdicts and their reasons.
var reasons = map[string]struct {
	because string
	verdict Verdict
}{
	"told":       {becauseTold, Avoidable},
	"own":        {becauseOwn, Avoidable},
	"pace":       {becauseOwnPace, Avoidable},
	"latetold":   {becauseLateTold, Avoidable},
	"others":     {becauseOthers, Unavoidable},
	"changed":    {becauseChanged, Excused},
	"falsified":  {becauseFalsified, Excused},
	"quiet":      {becauseQuiet, Excused},
	"stray":      {becauseStray, Excused},
	"unforeseen": {becauseUnpredictable, Excused},
	"kind":       {becauseKind, Excused},
	"lag":        {becauseLag, Excused},
	"period":     {becausePeriod, Excused},
	"late":       {becauseLate, Excused},
	"tried":      {becauseTried, Excused},
}

// story is a list of events, separated by spaces, in the order in which the server processes them. Times are in
// milliseconds.
//
//	100          a request that is sent at 100 and travels for 50 in each direction
//	100!         a request that is sent, processed and answered at 100
//	90/180/200   a request that is sent, processed and answered at these times; without the last time, never answered
//	read@100     the request named "read", instead of post
//	others@60    a request of another client that is processed at 60
//	100x4        the same event four times
type story string

// tell lets a story happen in a world. want lists the expected reasons of all refusals, in order. The report must count
// their verdicts.
func tell(t testing.TB, w *World, named map[string]Request, s story, want, name string) {
	t.Helper()
	var got []string
	var verdicts [Excused + 1]int
	for _, event := range strings.Fields(string(s)) {
		event, repeat, many := strings.Cut(event, "x")
		n, err := strconv.Atoi(repeat)
		require.Equal(t, many, err == nil, event)
		for range max(n, 1) {
			response := happen(t, w, named, event)
			if response == nil || response.Class == ClassNone {
				continue
			}
			for word, reason := range reasons {
				if reason.because == response.Because {
					require.Equal(t, reason.verdict, response.Verdict, "%s: %s", name, word)
					got = append(got, word)
				}
			}
			verdicts[response.Verdict]++
		}
	}
	require.Equal(t, want, strings.Join(got, " "), name)
	report := w.Report()
	assert.Equal(t, verdicts[Avoidable], report.Avoidable.Total(), name)
	assert.Equal(t, verdicts[Excused], report.Excused.Total(), name)
	assert.Equal(t, len(got), report.Refused.Total(), name)
}

// happen lets one event of a story happen. It returns the answer, or nil if the request is another client's.
func happen(t testing.TB, w *World, named map[string]Request, event string) *Response {
	t.Helper()
	request, times := post, event
	name, rest, found := strings.Cut(event, "@")
	if found {
		times = rest
		if name != "others" {
			request, found = named[name]
			require.True(t, found, "no request is named %q", name)
		}
	}
	var moments []time.Duration
	for text := range strings.SplitSeq(strings.TrimSuffix(times, "!"), "/") {
		n, err := strconv.Atoi(text)
		require.NoError(t, err, event)
		moments = append(moments, time.Duration(n)*ms)
	}
	sent := moments[0]
	switch {
	case name == "others":
		w.Consume(at(sent), request, 1)
		return nil
	case strings.HasSuffix(times, "!"):
		moments = []time.Duration{sent, sent, sent}
	case len(moments) == 1:
		moments = []time.Duration{sent, sent + 50*ms, sent + 100*ms}
	}
	request.SentAt = at(sent)
	response := w.Handle(at(moments[1]), request)
	if len(moments) > 2 {
		w.Deliver(response, at(moments[2]))
	}
	return response
}
