package limitertest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Each last step is a mistake in a script. It must be a panic that names the step, even if the limiter is correct.
func TestMistakesInScriptsPanic(t *testing.T) {
	t.Parallel()
	const full, open = "message1 gets 200 0/5 20s; ", "a: message1 goes; "
	for _, script := range []string{
		// words that are no step
		"close twice", "full stop", "in disorder", "none waits", "use nothing", "at least 5 refused", "z goes",
		"message goes", "user1 goes", "mesage1 goes", "message1 gose", open + "z: a gose", "0: message1 waits",
		"a: message1 goes later", "2s ago",
		// checks
		open + "a goes whithin 2s", open + "a goes afer 2s", open + "a goes if slow", open + "a goes after 1s from z",
		open + "a goes after 1s too 4s", open + "a returns twice", open + "a releases twice",
		full + "message1 waits long", full + "a: message1 waits; a cancel now",
		full + "message1+max=0s fails too-lng", full + "message1+max=0s fails deadlin",
		full + "a: message1 waits; a cancels; a fails cancelled",
		full + "a: message1+by=30s waits; a cancels; a fails at 2s canceled",
		// what distinguishes requests
		"message1+ordred goes", full + "message1+othr waits", full + "message1+max0s waits", "message1+other=1 goes",
		// responses
		open + "a gets 200 4/5 1s one two three", open + "a gets at onec 204", open + "a gets 429", open + "a gets 200 user",
		open + "a gets 429 usr 1s", open + "a gets 200 4/5",
		// the fake Discord
		"send 3 message1; all end within 10s; all suceed", "send 1 message1; all success within 10s", "all end",
		"send message1", "send 0 message1", "send 1 mesage1", "trip 20ms or 50ms", "trip 20", "refuse no user", "refuse usr",
		"limit message1 fixed 5/1s one renamed", "limit message1 fxed 5/1s", "limit message1 fixed 5",
	} {
		step := strings.TrimSpace(script[strings.LastIndex(script, ";")+1:])
		var problem any
		record(t, testCase{name: "wrong", run: func(t *trial) {
			defer func() { problem = recover() }()
			t.play(script)
		}}, managed())
		assert.Contains(t, problem, `limitertest: case "wrong", step "`+step+`": `, script)
	}
}
