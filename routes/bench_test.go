package routes_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/routes"
)

var matchCases = []struct {
	name, method, path string
	allocations        float64
}{
	{"message", "POST", "/channels/81384788765712384/messages", 0},
	{"url", "POST", "https://discord.com/api/v10/channels/81384788765712384/messages?wait=true", 0},
	{"me", "GET", "/users/@me", 0},
	{"member role", "PUT", "/api/v10/guilds/81384788765712384/members/80351110224678912/roles/41771983423143936", 0},
	{"encoded emoji", "PUT", "/channels/1/messages/81384788765712384/reactions/%F0%9F%94%A5/@me", 0},
	{"raw emoji", "PUT", "/channels/1/messages/81384788765712384/reactions/🔥/@me", 1},
	{"trailing slash", "GET", "/api/v10/channels/81384788765712384/messages/", 1},
	{"delete message", "DELETE", "/channels/1/messages/81384788765712384", 0},
	{"webhook", "POST", "/webhooks/223704706495545344/" + webhookToken, 0},
	{"follow-up", "POST", "/webhooks/223704706495545344/" + followUpToken, 0},
	{"callback", "POST", "/interactions/1103049420993970196/" + followUpToken + "/callback", 0},
	{"unknown", "GET", "/guilds/81384788765712384/new-thing/80351110224678912/search", 1},
}

var (
	webhookToken  = strings.Repeat("3d89bb7572e0fb30", 4) + "_-aB"
	followUpToken = "aW50ZXJhY3Rpb246" + strings.Repeat("MTEwMzA0OTQyMDk5Mzk3MDE5Ng", 7)
)

func TestMatchKeepsItsPromiseAboutAllocations(t *testing.T) {
	now := time.Now()
	for _, c := range matchCases {
		got := testing.AllocsPerRun(100, func() {
			compiled, _ := routes.MatchAt(c.method, c.path, now)
			_ = compiled.Method()
			_ = compiled.Major()
			_ = compiled.Route().GlobalExempt()
		})
		assert.LessOrEqual(t, got, c.allocations, c.name)
	}
}

func TestCompileAllocatesOnlyThePath(t *testing.T) {
	got := testing.AllocsPerRun(100, func() {
		_, _ = routes.AddMyMessageReaction.Compile("81384788765712384", "80351110224678912", "🔥")
	})
	assert.LessOrEqual(t, got, 1.0)
}

func BenchmarkMatch(b *testing.B) {
	for _, c := range matchCases {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = routes.Match(c.method, c.path)
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	for name, compile := range map[string]func(){
		"message":  func() { _, _ = routes.CreateMessage.Compile("81384788765712384") },
		"reaction": func() { _, _ = routes.AddMyMessageReaction.Compile("81384788765712384", "80351110224678912", "🔥") },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				compile()
			}
		})
	}
}

func BenchmarkMajor(b *testing.B) {
	compiled := match(b, "POST", "/channels/81384788765712384/messages")
	b.ReportAllocs()
	for b.Loop() {
		_ = compiled.Major()
	}
}

// Every log line and every event names a route. So the methods that return the name must not allocate.
func TestTheNameOfARouteCostsNoMemory(t *testing.T) {
	for _, route := range []routes.Route{routes.CreateMessage, routes.ExecuteWebhook} {
		names := func() { _, _, _ = route.String(), route.Method(), route.Template() }
		assert.Zero(t, testing.AllocsPerRun(100, names), route)
	}
}
