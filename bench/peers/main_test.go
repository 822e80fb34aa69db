package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// actVariable is an environment variable that makes this program behave differently, for the tests of processes.
const actVariable = "PEERS_TEST_ACT"

// disgo's own limiter starts a goroutine that never ends, not even after Close.
func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // discordgo reports its retries here
	switch os.Getenv(actVariable) {
	case "peers":
		os.Exit(program(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	case "crash":
		panic("as a library might")
	case "crash after the result":
		fmt.Println(`{"OK": 5}`)
		os.Exit(66)
	case "hang":
		select {}
	case "babble":
		fmt.Println("hello")
		os.Exit(0)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/disgoorg/disgo/rest.(*rateLimiterImpl).cleanup"))
}
