package main

import (
	"io"
	"log"
	"testing"

	"go.uber.org/goleak"
)

// disgo's own limiter starts a goroutine that nothing ends, not even Close.
func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // discordgo reports its retries here
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/disgoorg/disgo/rest.(*rateLimiterImpl).cleanup"))
}
