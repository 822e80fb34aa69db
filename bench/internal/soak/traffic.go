package soak

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// operations lists the operations of requests. weight is their number in a thousand. Names after $ are drawn.
var operations = []struct {
	weight             int
	method, path, body string
}{
	{260, "POST", "/channels/$channel/messages", "$content"},
	{90, "GET", "/channels/$channel/messages?limit=$percent", ""},
	{60, "PATCH", "/channels/$channel/messages/$message", `{"content":"edited"}`},
	{50, "PUT", "/channels/$channel/messages/$recent/reactions/%F0%9F%91%8D/@me", ""},
	{50, "DELETE", "/channels/$channel/messages/$recent/reactions/%F0%9F%91%8D/@me", ""},
	{70, "DELETE", "/channels/$channel/messages/$aged", ""},
	{10, "PATCH", "/channels/$channel", `{"name":"new"}`},
	{10, "PATCH", "/channels/$channel", `{"nsfw":true}`},
	{10, "PATCH", "/channels/$channel", `{"topic":"x","position":3}`},
	{20, "POST", "/channels/90$few/threads", `{"name":"thread"}`},
	{10, "GET", "/channels/$channel/pins", ""},
	{10, "POST", "/channels/$channel/typing", ""},
	{20, "POST", "/channels/$channel/messages", upload},
	{90, "GET", "/guilds/$guild/members/$many", ""},
	{20, "PUT", "/guilds/$guild/members/$many/roles/$percent", ""},
	{14, "GET", "/users/@me", ""},
	{13, "GET", "/users/@me/guilds", ""},
	{13, "GET", "/users/$many", ""},
	{5, "GET", "/invites/code$many", ""},
	{7, "GET", "/channels/$channel/frobnicate/$n", ""}, // this and the next three are not in Discord's documentation
	{6, "GET", "/new/thing$n/more", ""},
	{6, "GET", "/guilds/$guild/thing$n", ""},
	{6, "GET", "/webhooks/$n/$token/thing$n", ""},
	{37, "POST", "/webhooks/$webhook/$token?wait=true", "$content"},
	{18, "PATCH", "/webhooks/$webhook/$token/messages/$message", "$content"},
	{32, "POST", "/interactions/$interaction/$interactiontoken/callback", answer},
	{32, "POST", "/webhooks/42/$interactiontoken", answer},
	{31, "PATCH", "/webhooks/42/$interactiontoken/messages/@original", answer},
}

const answer = `{"type":4,"data":{"content":"hello"}}`

// upload exceeds maxBufferedBody, so it can be sent only once.
var upload = strings.Repeat("x", 2*maxBufferedBody)

// tunings lists the context options. One request in fifty has one of them.
var tunings = []func(context.Context) context.Context{
	buckets.ContextWithPriority, buckets.ContextWithOrdered, httpclient.ContextWithUnsafeRetries, httpclient.ContextWithoutRetries,
	func(ctx context.Context) context.Context { return buckets.ContextWithMaxWait(ctx, time.Second) },
}

// plan is one request to be made, drawn from the seed and the request's number.
type plan struct {
	method, path, body string
	authorization      string
	cancelAfter        time.Duration // 0: never
	deadline           time.Duration // 0: none
	tuning             int           // index into tunings, counted from 1; 0: none
}

func (p plan) once() bool { return p.body == upload }

// mark is in every token several times, so that every useful part of a token contains it. No hash or number does.
const mark = "zQ7xK9"

// interactionPrefix begins the tokens of interactions and is no secret; expiredToken begins those of expired ones.
const (
	interactionPrefix = "aW50ZXJhY3Rpb246"
	expiredToken      = interactionPrefix + "Expired"
)

// secret returns the n-th token of a kind. Any 17 characters of it contain the mark.
func secret(kind string, n uint64) string {
	return fmt.Sprintf("%s%s%06d%s%06d%s", kind, mark, n%1_000_000, mark, n/1_000_000, mark)
}

var (
	botA = "Bot " + secret("a", 0)
	// bearer is the token of a user who has authorized the application.
	bearer = "Bearer " + secret("b", 0)
)

// botB returns the credential of the second bot, whose token is replaced now and then.
func botB(version int) string { return "Bot " + secret("b", uint64(version)) }

// chance has the random numbers of the n-th request.
type chance struct {
	*rand.Rand
	n uint64
}

// draw draws the n-th request. Channels, webhooks and interactions come and go as n grows.
func (r *Round) draw(seed, n uint64, at time.Duration) plan {
	c := chance{rand.New(rand.NewPCG(seed, n)), n}
	i, x := 0, c.IntN(1000)
	for ; x >= operations[i].weight; i++ {
		x -= operations[i].weight
	}
	p := plan{method: operations[i].method, authorization: c.authorization(operations[i].path, botB(r.versionOfB(at)))}
	values := c.values()
	p.path, p.body = os.Expand(operations[i].path, values), os.Expand(operations[i].body, values)
	if c.IntN(50) == 0 {
		p.tuning = 1 + c.IntN(len(tunings))
	}
	switch x := c.IntN(100); {
	case !r.disturbed():
	case x < 5:
		p.cancelAfter = 1 + time.Duration(c.Int64N(int64(3*time.Second)))
	case x < 8:
		p.deadline = 1 + time.Duration(c.Int64N(int64(5*time.Second)))
	}
	return p
}

// authorization returns the credential of a bot, another bot or a user, or none, which is usual where the path has a
// token. It avoids two cases that no client can get right by Discord's documentation. Interactions with a credential
// count for the global limit, although they need not wait for it. And the simulator takes a shared limit for known to
// all credentials once one has met it.
func (c chance) authorization(path, botB string) string {
	x, none := c.IntN(100), c.IntN(2) == 0
	switch {
	case strings.Contains(path, "$interactiontoken"), strings.Contains(path, "$webhook") && none:
		return ""
	case strings.HasSuffix(path, "/threads"), x < 50:
		return botA
	case x < 85:
		return botB
	case x < 95:
		return bearer
	}
	return ""
}

// among draws one of count current ids, the first ones far more often. All ids are replaced over life requests.
func (c chance) among(base, count, life uint64) uint64 {
	x := c.Float64()
	return base + c.n*count/life + uint64(float64(count)*x*x*x*x*x)
}

// message returns the id of a message of the given age.
func (c chance) message(age time.Duration) uint64 {
	return discordsim.SnowflakeAt(time.Now().Add(-age)) + c.n%4096
}

// values draws the values of the names in paths and bodies.
func (c chance) values() func(name string) string {
	webhook, interaction := c.among(700_000_000, 60, 20_000), c.n/20+uint64(c.IntN(3))
	ages := []time.Duration{time.Second, 4 * time.Second, time.Hour, 24 * time.Hour, 20 * 24 * time.Hour}
	numbers := map[string]uint64{
		"n": c.n, "few": c.Uint64N(4), "percent": 1 + c.Uint64N(100), "many": c.Uint64N(5000),
		"channel": c.among(1000, 200, 10_000), "guild": c.among(500_000_000, 40, 200_000), "webhook": webhook, "interaction": 800_000_000 + interaction,
		"message": c.message(time.Hour), "recent": c.message(time.Minute), "aged": c.message(ages[c.IntN(len(ages))]),
	}
	texts := map[string]string{
		"token": secret("w", webhook), "content": `{"content":"hello"}`, "interactiontoken": secret(interactionPrefix, interaction),
	}
	if interaction%12 == 0 {
		texts["interactiontoken"] = secret(expiredToken, interaction)
	}
	if c.IntN(3) == 0 { // safe to send twice
		texts["content"] = fmt.Sprintf(`{"content":"hello","nonce":"%d","enforce_nonce":true}`, c.n)
	}
	return func(name string) string {
		if n, ok := numbers[name]; ok {
			return strconv.FormatUint(n, 10)
		}
		return texts[name]
	}
}

// offer makes a round's requests: Rate a minute at random times, with some two bursts a minute above the global limit.
func (s *soak) offer(ctx context.Context, r *Round) {
	const size, perMinute = 150, 2
	began, moments := time.Now(), rand.New(rand.NewPCG(s.Seed, ^uint64(r.number)))
	meanGap := float64(time.Minute) / (Rate - perMinute*(size-1))
	for at := time.Duration(0); at < r.length; at += time.Duration(moments.ExpFloat64() * meanGap) {
		if load.Pause(ctx, time.Until(began.Add(at))) != nil {
			return
		}
		atOnce := 1
		if moments.Float64()*float64(time.Minute) < perMinute*meanGap {
			atOnce = size
		}
		for range atOnce {
			p := r.draw(s.Seed, uint64(s.result.Made), at)
			s.result.Made++
			s.requests.Go(func() { s.make(p) })
		}
	}
}

// make makes one request and records its outcome.
func (s *soak) make(p plan) {
	began := time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if p.tuning > 0 {
		ctx = tunings[p.tuning-1](ctx)
	}
	switch {
	case p.deadline > 0:
		limited, cancel := context.WithTimeout(ctx, p.deadline)
		defer cancel()
		ctx = limited
	case p.cancelAfter > 0:
		defer time.AfterFunc(p.cancelAfter, cancel).Stop()
	}
	response, err := s.send(ctx, p)
	s.note(p, response, err, time.Since(began))
}

func (s *soak) send(ctx context.Context, p plan) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, p.method, discordsim.BaseURL+"/api/v10"+p.path, strings.NewReader(p.body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if p.authorization != "" {
		request.Header.Set("Authorization", p.authorization)
	}
	if p.once() {
		request.Header.Set("Content-Type", "application/octet-stream")
		request.GetBody = nil
	}
	response, err := s.client.Do(request)
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close() // the body was read
	}
	return response, err
}
