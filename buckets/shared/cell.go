package shared

import (
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// cell is what a session knows of a value on the server that all sessions can replace. The value consists of its
// version and JSON. The caller of the methods must hold a lock that guards the cell.
type cell struct {
	key   string
	value string // the latest known value, "" if none is known
}

func (c *cell) version() version {
	v, _ := parseVersion(versionOf(c.value))
	return v
}

// replace returns a step that replaces the known value.
func (c *cell) replace(content any, life time.Duration) Step {
	text, _ := json.Marshal(content) // cannot fail
	value := c.version().next().String() + " " + string(text)
	return Step{Key: c.key, Version: versionOf(c.value), Value: value, Life: life}
}

// took records the result of a step. It returns false if the step should have replaced the value but did not, because
// another session was faster.
func (c *cell) took(step *Step, result Loaded) bool {
	if c.value = result.Value; result.Replaced {
		c.value = step.Value
	}
	return result.Replaced || step.Value == ""
}

// errContent means that a value was not stored by this version of Ratelight.
var errContent = errors.New("does not hold a value of this version of Ratelight")

// content decodes a value into v. If the value is empty, v does not change.
func content(value string, v any) error {
	if value == "" {
		return nil
	}
	_, text, _ := strings.Cut(value, " ")
	_, ok := parseVersion(versionOf(value))
	if !ok || !strings.HasPrefix(text, "{") || json.Unmarshal([]byte(text), v) != nil {
		return errContent
	}
	return nil
}

// content decodes the value of a cell into v. If the value is foreign, content logs and returns a KeyError. It also
// removes the value from the cell, so that no step replaces the foreign value on the server.
func (s *session) content(c *cell, v any) error {
	if err := content(c.value, v); err != nil {
		c.value = ""
		return s.wrongKey(c.key, err.Error())
	}
	return nil
}

// exchange is a method of a session that makes a call: exchange or lastCall.
type exchange func(purpose string, era int64, steps ...Step) (reply, error)

// mostLastCalls bounds how often a closing session tries to replace a value if other sessions are faster.
const mostLastCalls = 10

// speakLast makes the last calls for one value. speak makes one call, and returns 0 if another call has to follow.
func (s *session) speakLast(speak func(exchange) time.Duration) {
	for range mostLastCalls {
		if speak(s.lastCall) != 0 {
			return
		}
	}
}
