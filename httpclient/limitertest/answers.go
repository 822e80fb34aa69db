package limitertest

import (
	"net/http"
	"strconv"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// bot is the usual credential, other a second one.
const (
	bot   = "Bot MTIz.first.credential"
	other = "Bot NDU2.second.credential"
)

// interactionToken begins like Discord's interaction tokens. This beginning distinguishes a follow-up from a webhook
// message.
const interactionToken = "aW50ZXJhY3Rpb246"

func match(method, path string) routes.CompiledRoute {
	route, err := routes.Match(method, path)
	if err != nil {
		panic(err) // all paths are constants
	}
	return route
}

// message, history and rename are routes of one channel: POST and GET messages, and PATCH of the channel itself.
func message(channel int) routes.CompiledRoute {
	return match(http.MethodPost, "/channels/"+strconv.Itoa(channel)+"/messages")
}

func history(channel int) routes.CompiledRoute {
	return match(http.MethodGet, "/channels/"+strconv.Itoa(channel)+"/messages")
}

func rename(channel int) routes.CompiledRoute {
	return match(http.MethodPatch, "/channels/"+strconv.Itoa(channel))
}

// callback is the response to an interaction, followUp a later message. Both are exempt from the global limit.
func callback(n int) routes.CompiledRoute {
	return match(http.MethodPost, "/interactions/"+strconv.Itoa(n)+"/"+interactionToken+strconv.Itoa(n)+"/callback")
}

func followUp(n int) routes.CompiledRoute {
	return match(http.MethodPost, "/webhooks/77/"+interactionToken+strconv.Itoa(n))
}

// request returns a request with the usual credential.
func request(route routes.CompiledRoute) *buckets.Request {
	return &buckets.Request{Route: route, Authorization: bot}
}

// fromOther returns a request with the other credential.
func fromOther(route routes.CompiledRoute) *buckets.Request {
	return &buckets.Request{Route: route, Authorization: other}
}

// withFields returns a request whose body sets these fields.
func withFields(route routes.CompiledRoute, fields ...string) *buckets.Request {
	return &buckets.Request{Route: route, Authorization: bot, Fields: func() []string { return fields }}
}

// at changes the server of a request, and returns the request.
func at(server string, r *buckets.Request) *buckets.Request {
	r.Server = server
	return r
}

// ok returns a success with the state of a bucket.
func ok(hash string, limit, remaining int, after time.Duration) ratelimits.Response {
	return in(ratelimits.Response{Status: http.StatusOK}, hash, limit, remaining, after)
}

// plain returns a response without limits.
func plain(status int) ratelimits.Response { return ratelimits.Response{Status: status} }

// refused returns a 429. If wait is 0, the 429 does not say how long to wait.
func refused(class ratelimits.Class, wait time.Duration) ratelimits.Response {
	r := ratelimits.Response{
		Status: http.StatusTooManyRequests, Class: class, HasRetryAfter: wait > 0, RetryAfter: wait,
	}
	return r.Clip()
}

// refusedIn returns a 429 of the bucket "messages", which has a limit of five, with this many requests remaining.
func refusedIn(class ratelimits.Class, remaining int, wait time.Duration) ratelimits.Response {
	return in(refused(class, wait), "messages", 5, remaining, wait)
}

// in adds the state of a bucket to a response. If hash is empty, the response names no bucket.
func in(r ratelimits.Response, hash string, limit, remaining int, after time.Duration) ratelimits.Response {
	r.Limited, r.Bucket, r.Limit, r.Remaining, r.ResetAfter = true, hash, limit, remaining, after
	r.Stamp = time.Now().Add(after).UnixMilli() // for limiters that share limits with other processes
	return r.Clip()
}

// parse returns what a response of the fake Discord says about limits.
func parse(r *discordsim.Response) ratelimits.Response {
	var body []byte
	if r.Status == http.StatusTooManyRequests {
		body = r.Body
	}
	parsed := ratelimits.ParseResponse(r.Status, r.Header, body)
	parsed.Stamp = ratelimits.ParseStamp(r.Header)
	return parsed
}
