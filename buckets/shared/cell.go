package shared

import (
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// cell is a value on the server that sessions replace one after the other, as one session knows it. The value is its
// version followed by JSON. The caller must lock it.
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

// took records the result of a step. It returns false if the step should have replaced the value but another session
// was faster.
func (c *cell) took(step *Step, result Loaded) bool {
	if c.value = result.Value; result.Replaced {
		c.value = step.Value
	}
	return result.Replaced || step.Value == ""
}

// errContent means that a value is not what this version of Ratelight stores.
var errContent = errors.New("does not hold a value of this version of Ratelight")

// content decodes a value into v. If value is empty, it leaves v as it is.
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

// content decodes the value of a cell into v. If the value is foreign, it logs and returns a KeyError, and forgets the
// value, so that no step replaces the foreign value.
func (s *session) content(c *cell, v any) error {
	if err := content(c.value, v); err != nil {
		c.value = ""
		return s.wrongKey(c.key, err.Error())
	}
	return nil
}

// exchange is the method of a session that makes a call: either exchange or lastCall.
type exchange func(purpose string, era int64, steps ...Step) (reply, error)

// mostLastCalls bounds how often a closing session tries to report one thing when other sessions are faster.
const mostLastCalls = 10

// speakLast makes the last calls about one thing. speak makes one call, and returns 0 if another call has to follow.
func (s *session) speakLast(speak func(exchange) time.Duration) {
	for range mostLastCalls {
		if speak(s.lastCall) != 0 {
			return
		}
	}
}
