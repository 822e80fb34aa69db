package routes_test

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/routes"
)

// measured is a line of testdata/measured.tsv: what was measured for a route with a bot of one application.
type measured struct{ method, path, family string }

func measurements(t *testing.T) (all []measured) {
	t.Helper()
	file, err := os.Open("testdata/measured.tsv")
	require.NoError(t, err)
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "\t")
		if strings.HasPrefix(lines.Text(), "#") || fields[0] == "method" {
			continue
		}
		require.Len(t, fields, 4, lines.Text())
		all = append(all, measured{fields[0], fields[1], fields[3]})
	}
	require.NoError(t, lines.Err())
	require.Len(t, all, 196)
	return all
}

func TestFamiliesAreThoseThatWereMeasured(t *testing.T) {
	t.Parallel()
	families := map[string]int{}
	for _, m := range measurements(t) {
		route, err := routes.New(m.method, m.path)
		require.NoError(t, err, m.path)
		assert.Equal(t, m.family, route.Family(), "%s %s", m.method, m.path)
		if m.family != "" {
			families[m.family]++
		}
	}
	assert.Len(t, families, 18)
	routesOfFamilies := map[string]int{}
	for route := range routes.All() {
		if family := route.Family(); family != "" {
			routesOfFamilies[family]++
			assert.Contains(t, families, family)
		}
	}
	for family, n := range routesOfFamilies {
		assert.LessOrEqual(t, n, families[family], "no route of the catalogue is in %s without a measurement", family)
	}
}

func TestFamilyOfAPathThatIsMatched(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"PUT /api/v10/channels/1/messages/2/reactions/%F0%9F%91%8D/@me": "reactions",
		"DELETE /api/v10/channels/1/messages/2/reactions/a:3/4":         "reactions",
		"DELETE /api/v10/channels/1/messages/2/reactions/a:3/1/@me":     "reactions",
		"DELETE /api/v10/channels/1/messages/2/reactions/a:3/1/4":       "reactions",
		"GET /api/v10/channels/1/messages/2/reactions/a:3":              "",
		"PATCH /guilds/1/channels":                                      "channel-edit",
		"POST /channels/1/messages":                                     "",
		"POST /webhooks/1/secret":                                       "webhook-token",
		"POST /webhooks/1/aW50ZXJhY3Rpb246x":                            "webhook-token",
		"PATCH /webhooks/1/aW50ZXJhY3Rpb246x/messages/@original":        "webhook-token",
		"GET /webhooks/1": "",
		"POST /interactions/1/aW50ZXJhY3Rpb246x/callback":                  "",
		"PATCH /guilds/1/members/@me":                                      "own-member-edit",
		"PATCH /guilds/1/members/2":                                        "",
		"DELETE /guilds/1/scheduled-events/2/exceptions/3":                 "event-delete",
		"PATCH /applications/1/guilds/2/commands/3":                        "command-edit",
		"POST /applications/1/guilds/2/commands/3/something/quite/unknown": "",
	} {
		method, url, _ := strings.Cut(path, " ")
		route, err := routes.Match(method, url)
		require.NoError(t, err)
		assert.Equal(t, want, route.Route().Family(), path)
	}
}
