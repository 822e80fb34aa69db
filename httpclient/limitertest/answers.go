package limitertest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// bot is the usual credential, other another one.
const (
	bot   = "Bot MTIz.first.credential"
	other = "Bot NDU2.second.credential"
)

// interactionToken begins as Discord's do, which is how a follow-up can be told from a webhook.
const interactionToken = "aW50ZXJhY3Rpb246"

func match(method, path string) routes.CompiledRoute {
	route, err := routes.Match(method, path)
	if err != nil {
		panic(err) // all paths here are constants
	}
	return route
}

// message, history and rename are three routes of one channel: POST and GET messages, and PATCH of the channel itself.
func message(channel int) routes.CompiledRoute {
	return match(http.MethodPost, "/channels/"+strconv.Itoa(channel)+"/messages")
}

func history(channel int) routes.CompiledRoute {
	return match(http.MethodGet, "/channels/"+strconv.Itoa(channel)+"/messages")
}

func rename(channel int) routes.CompiledRoute {
	return match(http.MethodPatch, "/channels/"+strconv.Itoa(channel))
}

// callback answers an interaction, followUp says more; both are exempt from the global limit.
func callback(n int) routes.CompiledRoute {
	return match(http.MethodPost, "/interactions/"+strconv.Itoa(n)+"/"+interactionToken+strconv.Itoa(n)+"/callback")
}

func followUp(n int) routes.CompiledRoute {
	return match(http.MethodPost, "/webhooks/77/"+interactionToken+strconv.Itoa(n))
}

// request is one with the usual credential.
func request(route routes.CompiledRoute) *buckets.Request {
	return &buckets.Request{Route: route, Authorization: bot}
}

// withFields is one whose body sets these fields.
func withFields(route routes.CompiledRoute, fields ...string) *buckets.Request {
	return &buckets.Request{Route: route, Authorization: bot, Fields: func() []string { return fields }}
}

// answer is a response as it comes over the wire.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// answered is an answer of the fake Discord's.
func answered(r *discordsim.Response) answer { return answer{r.Status, r.Header, r.Body} }

func (a answer) parse() ratelimits.Response {
	var body []byte
	if a.status == http.StatusTooManyRequests {
		body = a.body
	}
	r := ratelimits.ParseResponse(a.status, a.header, body)
	r.Stamp = ratelimits.ParseStamp(a.header) // for limiters that share with others
	return r
}

// fromAPI is an answer of Discord's API without limits.
func fromAPI(status int) answer {
	header := http.Header{}
	header.Set("Content-Type", "application/json")
	header.Set("Via", "1.1 google")
	header.Set("Server", "cloudflare")
	return answer{status, header, []byte("{}")}
}

// limits is what the headers say of a bucket.
type limits struct {
	hash             string
	limit, remaining int
	after            time.Duration
}

// in adds them to an answer. A bucket without a hash is described without one.
func (a answer) in(l limits) answer {
	if l.hash != "" {
		a.header.Set("X-RateLimit-Bucket", l.hash)
	}
	a.header.Set("X-RateLimit-Limit", strconv.Itoa(l.limit))
	a.header.Set("X-RateLimit-Remaining", strconv.Itoa(l.remaining))
	a.header.Set("X-RateLimit-Reset", decimal(time.Duration(time.Now().Add(l.after).UnixNano())))
	a.header.Set("X-RateLimit-Reset-After", decimal(l.after))
	return a
}

// decimal writes seconds with three places, cut.
func decimal(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Milliseconds())/1000, 'f', 3, 64)
}

// refusal is a 429 of the API with a scope: user, shared or global.
func refusal(scope string, wait time.Duration) answer {
	a := fromAPI(http.StatusTooManyRequests)
	a.header.Set("X-RateLimit-Scope", scope)
	a.header.Set("Retry-After", strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10))
	text := "You are being rate limited."
	if scope == "shared" {
		text = "The resource is being rate limited."
	}
	if scope == "global" {
		a.header.Set("X-RateLimit-Global", "true")
	}
	a.body, _ = json.Marshal(struct {
		Message    string  `json:"message"`
		RetryAfter float64 `json:"retry_after"`
		Global     bool    `json:"global"`
	}{text, float64(wait.Milliseconds()) / 1000, scope == "global"})
	return a
}

// fromEdge is a 429 of the network in front of Discord: a page of HTML. With no wait it does not say how long.
func fromEdge(wait time.Duration) answer {
	header := http.Header{}
	header.Set("Content-Type", "text/html; charset=UTF-8")
	header.Set("Server", "cloudflare")
	if wait > 0 {
		header.Set("Retry-After", strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10))
	}
	return answer{http.StatusTooManyRequests, header, []byte("<!doctype html><title>Access denied</title> error code: 1015")}
}

// ok is an ordinary answer of a bucket.
func ok(hash string, limit, remaining int, after time.Duration) ratelimits.Response {
	return fromAPI(http.StatusOK).in(limits{hash, limit, remaining, after}).parse()
}

// plain is an answer without limits.
func plain(status int) ratelimits.Response { return fromAPI(status).parse() }

// refusedBy is a 429 of a bucket that has so many left.
func refusedBy(scope, hash string, limit, remaining int, wait time.Duration) ratelimits.Response {
	return refusal(scope, wait).in(limits{hash, limit, remaining, wait}).parse()
}
