package discordsim_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// A client sends seven messages, one after the other, to a bucket with a limit of five. The client ignores the answers.
func Example() {
	server, err := discordsim.New(discordsim.Config{
		Rules: []discordsim.Rule{{
			Method: "POST", Path: "/channels/{id}/messages",
			Quota: discordsim.Fixed(5, time.Hour),
		}},
	})
	if err != nil {
		panic(err)
	}
	defer server.Close()

	client := &http.Client{Transport: server.RoundTripper()}
	for range 7 {
		response, err := client.Post(discordsim.BaseURL+"/api/v10/channels/1/messages", "application/json", nil)
		if err != nil {
			panic(err)
		}
		response.Body.Close()
		fmt.Print(response.StatusCode, ";")
	}
	report := server.Report()
	fmt.Println()
	fmt.Println("avoidable:", report.Avoidable.User, "because", server.Refusals()[0].Because)
	// Output:
	// 200;200;200;200;200;429;429;
	// avoidable: 2 because the client had been told to wait
}

// How long do 1000 messages take with a limit of five per second and a round trip of 100 ms?
func ExampleCertain() {
	conditions := discordsim.Conditions{RoundTrip: 100 * time.Millisecond}
	work := discordsim.Work{Quota: discordsim.Fixed(5, time.Second), Count: 1000, Route: "cold"}
	omniscient, _ := discordsim.Omniscient(conditions, work)
	certain, _ := discordsim.Certain(conditions, work)
	fmt.Println(omniscient.Makespan, certain.Makespan)
	// Output: 3m19.1s 3m39s
}

// This example uses a World without a server, so the example itself decides when requests are processed and answered.
func ExampleWorld() {
	start := time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)
	world, err := discordsim.NewWorld(start, discordsim.Config{
		Default: &discordsim.Rule{Path: "**", Quota: discordsim.Sliding(2, time.Second)},
	})
	if err != nil {
		panic(err)
	}
	for _, sent := range []time.Duration{0, 300 * time.Millisecond, 600 * time.Millisecond} {
		request := discordsim.Request{Method: "GET", Path: "/gateway", SentAt: start.Add(sent)}
		response := world.Handle(start.Add(sent+50*time.Millisecond), request)
		world.Deliver(response, start.Add(sent+100*time.Millisecond))
		fmt.Printf("%d %v %v\n", response.Status, response.Class, response.Verdict)
	}
	// Output:
	// 200 none none
	// 200 none none
	// 429 user avoidable
}
