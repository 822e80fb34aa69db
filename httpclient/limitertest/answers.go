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

// bot is the usual credential, other is a second one.
const (
	bot   = "Bot MTIz.first.credential"
	other = "Bot NDU2.second.credential"
)

// interactionToken begins like Discord's, which distinguishes a follow-up from a webhook message.
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

// answer is a response as it comes from the network.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// answered returns a response of the fake Discord as an answer.
func answered(r *discordsim.Response) answer { return answer{r.Status, r.Header, r.Body} }

func (a answer) parse() ratelimits.Response {
	var body []byte
	if a.status == http.StatusTooManyRequests {
		body = a.body
	}
	r := ratelimits.ParseResponse(a.status, a.header, body)
	r.Stamp = ratelimits.ParseStamp(a.header) // for limiters that share limits with other processes
	return r
}

// fromAPI returns an answer of Discord's API without limits.
func fromAPI(status int) answer {
	header := http.Header{}
	header.Set("Content-Type", "application/json")
	header.Set("Via", "1.1 google")
	header.Set("Server", "cloudflare")
	return answer{status, header, []byte("{}")}
}

// limits are the values of the headers that describe a bucket.
type limits struct {
	hash             string
	limit, remaining int
	after            time.Duration
}

// in adds the headers of l to an answer. An empty hash adds no X-RateLimit-Bucket.
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

// decimal formats seconds with three decimal places, and rounds down.
func decimal(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Milliseconds())/1000, 'f', 3, 64)
}

// refusal returns a 429 of the API with a scope: user, shared or global.
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

// fromEdge returns a 429 of the network in front of Discord, an HTML page. If wait is 0, it has no Retry-After.
func fromEdge(wait time.Duration) answer {
	header := http.Header{}
	header.Set("Content-Type", "text/html; charset=UTF-8")
	header.Set("Server", "cloudflare")
	if wait > 0 {
		header.Set("Retry-After", strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10))
	}
	return answer{http.StatusTooManyRequests, header, []byte("<!doctype html><title>Access denied</title> error code: 1015")}
}

// ok returns an ordinary response in a bucket.
func ok(hash string, limit, remaining int, after time.Duration) ratelimits.Response {
	return fromAPI(http.StatusOK).in(limits{hash, limit, remaining, after}).parse()
}

// plain returns a response without limits.
func plain(status int) ratelimits.Response { return fromAPI(status).parse() }

// refusedBy returns a 429 in a bucket with this many requests remaining.
func refusedBy(scope, hash string, limit, remaining int, wait time.Duration) ratelimits.Response {
	return refusal(scope, wait).in(limits{hash, limit, remaining, wait}).parse()
}
