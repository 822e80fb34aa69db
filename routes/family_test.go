package routes_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/routes"
)

func TestFamiliesAreThoseThatWereMeasured(t *testing.T) {
	t.Parallel()
	families := map[string]int{}
	lines := readTable(t, "testdata/measured.tsv")
	require.Len(t, lines, 197)
	for _, line := range lines[1:] { // the first line names the columns
		family := line[3]
		assert.Equal(t, family, made(t, line[0], line[1]).Family(), line)
		if family != "" {
			families[family]++
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
		assert.Equal(t, want, match(t, method, url).Route().Family(), path)
	}
}
