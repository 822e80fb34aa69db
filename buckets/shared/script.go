package shared

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"time"
)

//go:embed lua/exchange.lua
var exchangeSource string

// OnScripts returns the engine for a Redis or Valkey server. For every call, the engine runs one Lua script. The engine
// is a Subscriber if the runner is one. If the runner is nil, OnScripts returns nil, and [New] rejects this engine with
// an error.
func OnScripts(runner Runner) Engine {
	if v := reflect.ValueOf(runner); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil
	}
	scripted := &scriptEngine{runner: runner}
	if subscriber, ok := runner.(Subscriber); ok {
		return struct {
			*scriptEngine
			Subscriber
		}{scripted, subscriber}
	}
	return scripted
}

type scriptEngine struct {
	runner  Runner
	scripts sync.Map // *Script by purpose; their names differ, because errors contain the name of the script
}

func (e *scriptEngine) script(purpose string) *Script {
	if known, ok := e.scripts.Load(purpose); ok {
		return known.(*Script)
	}
	made, _ := e.scripts.LoadOrStore(purpose, &Script{Name: purpose, Source: exchangeSource})
	return made.(*Script)
}

// Exchange implements Engine.
func (e *scriptEngine) Exchange(ctx context.Context, call *Call) (*Reply, error) {
	keys := make([]string, len(call.Steps))
	arguments := []string{strconv.FormatInt(call.NotAfter.Milliseconds(), 10), call.Guard}
	for i, step := range call.Steps {
		keys[i] = step.Key
		version := step.Version
		if step.Any {
			version = "*"
		}
		arguments = append(arguments, step.Value, version, strconv.FormatInt(ceilMillis(step.Life), 10), step.Message,
			strconv.Itoa(len(step.Channels)))
		arguments = append(arguments, step.Channels...)
	}
	values, err := e.runner.Run(ctx, e.script(call.Purpose), keys, arguments...)
	if err != nil {
		if wrong := keyError(err, keys); wrong != nil {
			return nil, wrong
		}
		return nil, err
	}
	reply, ok := newReply(values)
	if !ok {
		return nil, fmt.Errorf("%w: %s", errReply, call.Purpose)
	}
	return reply, nil
}

// errReply means that a reply has another form than the replies of our script.
var errReply = errors.New("shared: the reply of the server is malformed: do all processes use the same version?")

// newReply decodes a reply of the script. It returns false if the reply is malformed.
func newReply(values []int64) (*Reply, bool) {
	if len(values) < 2 {
		return nil, false
	}
	reply := &Reply{Late: values[0] < 0, Time: micros(values[1])}
	for rest := values[2:]; len(rest) > 0; {
		if len(rest) < 3 {
			return nil, false
		}
		loaded, length := Loaded{Replaced: rest[0] == 1, Life: millis(rest[1])}, max(rest[2], 0)
		rest = rest[3:]
		if length > int64(len(rest)) {
			return nil, false
		}
		loaded.Value = bytesOf(rest[:length])
		rest = rest[length:]
		reply.Values = append(reply.Values, loaded)
	}
	return reply, true
}

// bytesOf returns a string of a reply, in which the script has stored each byte as an integer.
func bytesOf(values []int64) string {
	b := make([]byte, len(values))
	for i, v := range values {
		b[i] = byte(v)
	}
	return string(b)
}

// millis and micros convert a time in a reply. They limit impossible values, so that additions cannot overflow.
func millis(n int64) time.Duration {
	return time.Duration(min(max(n, 0), forever.Milliseconds())) * time.Millisecond
}

func micros(n int64) time.Duration {
	return time.Duration(min(max(n, 0), forever.Microseconds()*10)) * time.Microsecond
}

// ceilMillis returns a duration in milliseconds, rounded up.
func ceilMillis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
