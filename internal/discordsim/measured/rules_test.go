package measured

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/internal/discordsim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// example returns a path that matches a template.
func example(template string) string {
	segments := strings.Split(template, "/")
	for i, segment := range segments {
		switch segment {
		case "{webhook_token}", "{emoji_name}", "{code}", "{upload_filename}":
			segments[i] = "word"
		default:
			if strings.HasPrefix(segment, "{") {
				segments[i] = "1000000000000000000"
			}
		}
	}
	return strings.Join(segments, "/")
}

// The first rule that matches the requests of a measured route must be that route's rule.
func TestEachRouteHasItsRule(t *testing.T) {
	t.Parallel()
	routes, rules := readTable(), Rules(Options{})
	require.Len(t, routes, 196)
	for i, r := range routes {
		first := -1
		for j := range rules {
			if rules[j].Matches(r.method, example(r.path)) {
				first = j
				break
			}
		}
		if assert.GreaterOrEqual(t, first, 0, r) {
			assert.Equal(t, rules[i].Hash, rules[first].Hash, "%v: %v", r, &rules[first])
			assert.Equal(t, rules[i].Shared != nil, rules[first].Shared != nil, r)
		}
	}
}

// Every route or family that numbers.go names must be in routes.txt.
func TestNumbersAreOfMeasuredRoutes(t *testing.T) {
	t.Parallel()
	names := make(map[string]bool)
	for _, r := range readTable() {
		names[r.name()] = true
		assert.Contains(t, typical, r.kind, r)
	}
	for name := range numbers {
		assert.Contains(t, names, name)
	}
	hidden := 0
	for _, rule := range Rules(Options{}) {
		if rule.Shared != nil || rule.SubLimits != nil || rule.Vary != nil {
			hidden++
		}
	}
	assert.Equal(t, 8, hidden)
}

// A simulated server must accept the rules, and it must accept one request to each route.
func TestOneRequestToEachRoute(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.October, 1, 0, 0, 0, 0, time.UTC)
	world, err := discordsim.NewWorld(now, discordsim.Config{Rules: Rules(Options{})})
	require.NoError(t, err)
	for _, r := range readTable() {
		now = now.Add(10 * time.Second)
		request := discordsim.Request{Method: r.method, Path: "/api/v10" + example(r.path), Authorization: "Bot a"}
		response := world.Handle(now, request)
		assert.Equal(t, 200, response.Status, r)
		limit := response.Header.Get("X-RateLimit-Limit")
		switch r.kind {
		case "none":
			assert.Empty(t, limit, r)
		case "one":
			assert.Equal(t, "1", limit, r)
		case "unlimited":
			assert.Equal(t, "1000", limit, r)
			assert.Equal(t, "999", response.Header.Get("X-RateLimit-Remaining"), r)
			assert.Equal(t, "0.001", response.Header.Get("X-RateLimit-Reset-After"), r)
		default:
			assert.NotEmpty(t, limit, r)
		}
	}
}
