package soak

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// plan is one request to be made, drawn beforehand from the seed and its number alone.
type plan struct {
	method, path  string
	authorization string
	body          string // "": none
	once          bool   // the body cannot be had again
	cancelAfter   time.Duration
	deadline      time.Duration
	cancelled     bool // after cancelAfter
	tuning        int  // which of the tunings of its context, 0: none
}

// draw draws the n-th request. Time goes by the number, in which channels, webhooks and interactions come and go.
func (s *soak) draw(n uint64, w weather, botB int) plan {
	c := chance{rand.New(rand.NewPCG(s.Seed, n)), n}
	p := c.operation()
	if p.authorization == "" {
		p.authorization = c.authorization(botB)
	}
	if p.authorization == nobody {
		p.authorization = ""
	}
	if c.IntN(50) == 0 {
		p.tuning = 1 + c.IntN(tunings)
	}
	if !w.storm {
		return p.fair()
	}
	switch x := c.IntN(100); {
	case x < 5:
		p.cancelled, p.cancelAfter = true, time.Duration(c.Int64N(int64(3*time.Second)))
	case x < 8:
		p.deadline = time.Duration(c.Int64N(int64(5 * time.Second)))
	}
	return p
}

// fair leaves out what no client can get right, or none that goes by Discord's documentation: with a credential interactions
// count for the global limit although they need not wait for it, and the simulator takes a shared limit that one credential
// has met for known to all.
func (p plan) fair() plan {
	switch {
	case strings.Contains(p.path, interactionPrefix):
		p.authorization = ""
	case strings.HasSuffix(p.path, "/threads"):
		p.authorization = botToken("a", 0)
	}
	return p
}

// nobody stands for no authorization.
const nobody = "-"

// chance draws for one request.
type chance struct {
	*rand.Rand
	n uint64
}

// authorization is that of a bot, of another bot whose token is replaced now and then, of a user, or none.
func (c chance) authorization(botB int) string {
	switch x := c.IntN(100); {
	case x < 50:
		return botToken("a", 0)
	case x < 85:
		return botToken("b", botB)
	case x < 95:
		return bearer
	}
	return nobody
}

// among draws an id from those of the moment: one of count, the first ones far more often, all of them replaced in the course of
// life requests.
func (c chance) among(base, count, life uint64) uint64 {
	x := c.Float64()
	return base + c.n*count/life + uint64(float64(count)*x*x*x*x*x)
}

func (c chance) channel() uint64 { return c.among(1000, 200, 10_000) }
func (c chance) guild() uint64   { return c.among(500_000_000, 40, 200_000) }

// message is the id of one that was written so long ago.
func (c chance) message(age time.Duration) uint64 {
	return discordsim.SnowflakeAt(time.Now().Add(-age)) + c.n%4096
}

// operation draws what is asked for.
func (c chance) operation() plan {
	x, channel := c.IntN(1000), c.channel()
	at := func(limit int) bool {
		x -= limit
		return x < 0
	}
	in := func(format string, more ...any) string {
		return fmt.Sprintf("/channels/%d", channel) + fmt.Sprintf(format, more...)
	}
	switch {
	case at(260):
		return plan{method: "POST", path: in("/messages"), body: c.content()}
	case at(90):
		return plan{method: "GET", path: in("/messages?limit=%d", 1+c.IntN(100))}
	case at(60):
		return plan{method: "PATCH", path: in("/messages/%d", c.message(time.Hour)), body: `{"content":"edited"}`}
	case at(100):
		method := []string{"PUT", "DELETE"}[c.IntN(2)]
		return plan{method: method, path: in("/messages/%d/reactions/%%F0%%9F%%91%%8D/@me", c.message(time.Minute))}
	case at(70):
		return plan{method: "DELETE", path: in("/messages/%d", c.message(c.age()))}
	case at(30):
		return plan{method: "PATCH", path: in(""), body: []string{`{"name":"new"}`, `{"nsfw":true}`, `{"topic":"x","position":3}`}[c.IntN(3)]}
	case at(20):
		return plan{method: "POST", path: fmt.Sprintf("/channels/%d/threads", 900+c.IntN(4)), body: `{"name":"thread"}`}
	case at(10):
		return plan{method: "GET", path: in("/pins")}
	case at(10):
		return plan{method: "POST", path: in("/typing")}
	case at(20):
		return plan{method: "POST", path: in("/messages"), body: strings.Repeat("x", 2*maxBufferedBody), once: true}
	}
	return c.beyondChannels(x)
}

// beyondChannels draws what is not about a channel. x counts down as before, from what is left of 1000.
func (c chance) beyondChannels(x int) plan {
	switch guild := c.guild(); {
	case x < 90:
		return plan{method: "GET", path: fmt.Sprintf("/guilds/%d/members/%d", guild, c.IntN(5000))}
	case x < 110:
		return plan{method: "PUT", path: fmt.Sprintf("/guilds/%d/members/%d/roles/%d", guild, c.IntN(5000), c.IntN(50))}
	case x < 150:
		return plan{method: "GET", path: []string{"/users/@me", "/users/@me/guilds", fmt.Sprintf("/users/%d", c.IntN(5000))}[c.IntN(3)]}
	case x < 155:
		return plan{method: "GET", path: fmt.Sprintf("/invites/code%d", c.IntN(5000))}
	case x < 180:
		return plan{method: "GET", path: c.unheardOf()}
	case x < 235:
		return c.webhook()
	}
	return c.interaction()
}

// unheardOf is a path that no list of Discord's operations has.
func (c chance) unheardOf() string {
	return []string{
		fmt.Sprintf("/channels/%d/frobnicate/%d", c.channel(), c.n), fmt.Sprintf("/new/thing%d/more", c.n),
		fmt.Sprintf("/guilds/%d/thing%d", c.guild(), c.n), fmt.Sprintf("/webhooks/%d/%s/thing%d", c.n, webhookToken(c.n), c.n),
	}[c.IntN(4)]
}

// webhook draws what webhooks do. Those that are gone or have a wrong token are those whose id says so, see ofWebhook.
func (c chance) webhook() plan {
	id := c.among(700_000_000, 60, 20_000)
	p := plan{method: "POST", path: fmt.Sprintf("/webhooks/%d/%s?wait=true", id, webhookToken(id)), body: c.content()}
	if c.IntN(3) == 0 {
		p.method, p.path = "PATCH", fmt.Sprintf("/webhooks/%d/%s/messages/%d", id, webhookToken(id), c.message(time.Hour))
	}
	if c.IntN(2) == 0 {
		p.authorization = nobody
	}
	return p
}

// interaction draws an answer to one, or something that follows it. There are a few for each token, and then no more.
func (c chance) interaction() plan {
	number := c.n/20 + uint64(c.IntN(3))
	p := plan{method: "POST", body: `{"type":4,"data":{"content":"hello"}}`}
	if c.IntN(4) > 0 {
		p.authorization = nobody
	}
	token := interactionToken(number)
	if number%12 == 0 {
		token = secret(expiredToken, number)
	}
	switch c.IntN(3) {
	case 0:
		p.path = fmt.Sprintf("/interactions/%d/%s/callback", 800_000_000+number, token)
	case 1:
		p.path = "/webhooks/42/" + token
	default:
		p.method, p.path = "PATCH", "/webhooks/42/"+token+"/messages/@original"
	}
	return p
}

// age is that of a message to be deleted.
func (c chance) age() time.Duration {
	return []time.Duration{time.Second, 4 * time.Second, time.Hour, 24 * time.Hour, 20 * 24 * time.Hour}[c.IntN(5)]
}

// content is a message, some of which may be sent twice without harm.
func (c chance) content() string {
	if c.IntN(3) == 0 {
		return fmt.Sprintf(`{"content":"hello","nonce":"%d","enforce_nonce":true}`, c.n)
	}
	return `{"content":"hello"}`
}
