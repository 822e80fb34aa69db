package shared_test

import (
	"os"
	"time"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/memoryengine"
	"github.com/ratelight/ratelight/internal/redissim"
)

// server is an engine whose content and failures are controlled by tests.
type server interface {
	shared.Engine
	shared.Subscriber
	Decide(func(purpose string) memoryengine.Fate)
	SetDown(bool)
	SetFrozen(bool)
	SetQuiet(bool)
	StepClock(time.Duration)
	Calls() map[string]int
	Total() int
	Keys() []string
	Value(key string) string
	Set(key, text string)
	SetForeign(key string)
	Evict(key string) bool
	Flush()
	Close()
}

// newServer returns an engine in memory. If the environment variable RATELIGHT_SCRIPTED is 1, it returns one that runs
// the script on a simulated Redis, which makes tests take ten times as long.
func newServer() server {
	if os.Getenv("RATELIGHT_SCRIPTED") != "1" {
		return memoryengine.New()
	}
	s := redissim.New()
	return struct {
		*redissim.Server
		shared.Engine
	}{s, shared.OnScripts(s)}
}
