package httpclient_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/discordtest"
)

// rules are random rules of a fake Discord, drawn beforehand so that they can be shrunk. All limits are such that a
// client can know them: a 429 of another one may arrive at the very moment at which something is sent.
type rules struct {
	all         []discordtest.Rule
	text        []string
	operations  []string // to be requested
	global      int
	credentials int
}

func (r *rules) add(rule discordtest.Rule, format string, arguments ...any) {
	r.all = append(r.all, rule)
	r.text = append(r.text, fmt.Sprintf(format, arguments...))
}

// limitedOperations are requested with random ids.
var limitedOperations = []string{
	"POST /channels/{id}/messages", "GET /channels/{id}/messages", "PATCH /channels/{id}", "PUT /guilds/{id}/members/{id}/roles/{id}", "GET /users/@me",
}

func drawRules(t *rapid.T) rules {
	r := rules{operations: slices.Clone(limitedOperations), credentials: rapid.IntRange(1, 2).Draw(t, "credentials")}
	r.drawDiscord(t)
	for _, on := range limitedOperations {
		fault := rapid.IntRange(0, 9).Draw(t, "fault")
		if r.drawLimit(t, on) { // without an answer nobody knows when a bucket should open
			fault = max(fault, 3)
		}
		switch fault {
		case 0:
			r.add(discordtest.Answer(on, http.StatusServiceUnavailable, nil).Nth(2, 3), "%s: the second and the third are answered 503", on)
		case 1:
			r.add(discordtest.Lose(on).Nth(3), "%s: the answer to the third is lost", on)
		case 2:
			r.add(discordtest.Cut(on).Nth(2), "%s: the second does not arrive", on)
		case 3:
			r.add(discordtest.SlowBody(on, 700*time.Millisecond).Nth(1, 4), "%s: slow bodies of the first and the fourth", on)
		case 4:
			r.add(discordtest.Answer(on, http.StatusNotFound, nil).Nth(1, 2, 5), "%s: the first, second and fifth are answered 404", on)
		}
	}
	if r.global = rapid.SampledFrom([]int{50, 50, 10, 3}).Draw(t, "global limit"); r.global < 50 {
		r.add(discordtest.GlobalLimit(r.global), "global limit of %d", r.global)
	}
	latency := time.Duration(rapid.SampledFrom([]int{20, 1, 100, 400}).Draw(t, "latency")) * time.Millisecond
	r.add(discordtest.Latency(latency), "latency of %v", latency)
	return r
}

// drawLimit reports whether the limit may be late.
func (r *rules) drawLimit(t *rapid.T, on string) (late bool) {
	limit := rapid.SampledFrom([]int{1, 2, 5, 5, 10}).Draw(t, "limit")
	period := time.Duration(rapid.SampledFrom([]int{1000, 250, 2000, 5000}).Draw(t, "period")) * time.Millisecond
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		return r.addLimit(t, discordtest.Window(on, limit, period), period, "%s: window of %d in %v", on, limit, period)
	case 1:
		r.add(discordtest.Sliding(on, limit, period), "%s: sliding, %d in %v", on, limit, period)
	case 2:
		return r.addLimit(t, discordtest.Leaky(on, limit, period), period, "%s: leaky, %d in %v", on, limit, period)
	case 3:
		r.add(discordtest.Unlimited(on), "%s: unlimited", on)
	}
	return false
}

// addLimit adds a limit that may be late, by less than a period: other clients' requests are late by that. It reports
// whether it is late. (Sliding ones never are: of a late one not all refusals are foreseen yet.)
func (r *rules) addLimit(
	t *rapid.T, limit discordtest.Rule, period time.Duration, format string, arguments ...any,
) (late bool) {
	if rapid.Bool().Draw(t, "punctual") {
		r.add(limit, format, arguments...)
		return false
	}
	least := rapid.SampledFrom([]time.Duration{5, 0, 50}).Draw(t, "late by") * period / 100
	most := least + rapid.SampledFrom([]time.Duration{0, 5, 25}).Draw(t, "late at random by")*period/100
	r.add(limit.Late(least, most), format+", late by %v to %v", append(arguments, least, most)...)
	return true
}

// randomLoad is requests of random operations, of all credentials, at random moments.
type randomLoad struct {
	seed               uint64
	requests, channels int
	spread             time.Duration
}

func drawLoad(t *rapid.T) randomLoad {
	return randomLoad{
		seed: rapid.Uint64().Draw(t, "seed"), requests: rapid.IntRange(1, 60).Draw(t, "requests"), channels: rapid.IntRange(1, 3).Draw(t, "channels"),
		spread: time.Duration(rapid.SampledFrom([]int{0, 100, 3000}).Draw(t, "spread")) * time.Millisecond,
	}
}

// send sends them all, and returns when all have been answered.
func (l randomLoad) send(client *http.Client, credentials int, operations []string) {
	random := rand.New(rand.NewPCG(l.seed, 0))
	var all sync.WaitGroup
	for range l.requests {
		method, path, _ := strings.Cut(operations[random.IntN(len(operations))], " ")
		path = strings.Replace(path, "{id}", fmt.Sprint(100+random.IntN(l.channels)), 1)
		r, err := http.NewRequestWithContext(context.Background(), method, "https://discord.com/api/v10"+strings.ReplaceAll(path, "{id}", "7"), http.NoBody)
		if err != nil {
			panic(err)
		}
		r.Header.Set("Authorization", fmt.Sprint("Bot ", random.IntN(credentials)))
		at := time.Duration(random.Int64N(int64(l.spread + 1)))
		all.Go(func() {
			time.Sleep(at)
			if response, err := client.Do(r); err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		})
	}
	all.Wait()
}

// Whatever the limits of the fake Discord are, and whatever it does wrong, the transport causes no 429 that could be
// avoided.
func TestNoRulesMakeTheTransportSendTooMuch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r, load := drawRules(rt), drawLoad(rt)
		var avoidable, requests []discordtest.Request
		synctest.Test(t, func(t *testing.T) {
			server := discordtest.NewServer(t, r.all...)
			transport := httpclient.NewTransport(httpclient.WithBase(server.Client().Transport), httpclient.WithMaxRateLimit(time.Hour),
				httpclient.WithBuckets(buckets.WithGlobalLimit(r.global)))
			defer transport.Close()
			load.send(&http.Client{Transport: transport}, r.credentials, r.operations)
			avoidable, requests = server.Avoidable(), server.Requests()
		})
		if len(avoidable) > 0 {
			rt.Fatalf("%v\nrules:\n%s\nrequests:\n%v", avoidable, strings.Join(r.text, "\n"), requests)
		}
	})
}
