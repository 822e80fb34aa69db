package ratelimits_test

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// ExampleParseResponse reads a 429 from Discord, and prints the wait that the 429 asks for.
func ExampleParseResponse() {
	header := http.Header{}
	header.Set("X-RateLimit-Limit", "5")
	header.Set("X-RateLimit-Remaining", "0")
	header.Set("X-RateLimit-Reset-After", "1.250")
	header.Set("X-RateLimit-Scope", "user")
	header.Set("Via", "1.1 google") // Discord's API adds this header; the network in front of the API does not
	body := []byte(`{"message": "You are being rate limited.", "retry_after": 1.25, "global": false}`)

	response := ratelimits.ParseResponse(http.StatusTooManyRequests, header, body)
	fmt.Println(response.Class, response.Limit, response.Remaining)
	fmt.Println("wait", response.AskedWait().Round(10*time.Millisecond))
	// Output:
	// user 5 0
	// wait 1.25s
}

// ExampleWindow sends requests to a bucket with a limit of two. The times are arguments, so no clock is needed.
func ExampleWindow() {
	var window ratelimits.Window // nothing is known yet, so one request is sent first
	permit, ok := window.Take(0)
	fmt.Println("first:", ok)
	_, ok = window.Take(0)
	fmt.Println("second at once:", ok)

	window.Report(100*time.Millisecond, permit, ratelimits.Response{
		Status: 200, Limited: true, Limit: 2, Remaining: 1, ResetAfter: time.Second,
	})
	_, ok = window.Take(100 * time.Millisecond)
	fmt.Println("second:", ok)
	at, _ := window.Next(100 * time.Millisecond)
	fmt.Println("third not before", at.Round(10*time.Millisecond))
	// Output:
	// first: true
	// second at once: false
	// second: true
	// third not before 1.1s
}

// ExampleThrottle shows that a shorter hold does not shorten a longer one.
func ExampleThrottle() {
	var hold ratelimits.Throttle
	hold.Extend(0, 3*time.Second)
	hold.Extend(time.Second, time.Second) // this hold would end earlier, so it has no effect
	fmt.Println(hold.Wait(time.Second))
	// Output: 2s
}

// ExampleTooLongError shows how a caller learns when to try again.
func ExampleTooLongError() {
	var err error = &ratelimits.TooLongError{
		Route: "GET /users/@me",
		Wait:  20 * time.Second, Max: 10 * time.Second, Limit: 5, Period: 5 * time.Second,
	}
	var tooLong *ratelimits.TooLongError
	if errors.As(err, &tooLong) {
		fmt.Println("again in", tooLong.Wait)
	}
	fmt.Println(err)
	// Output:
	// again in 20s
	// rate limit too long: GET /users/@me would wait 20s (5 requests per 5s), longer than the 10s that it may wait
}
