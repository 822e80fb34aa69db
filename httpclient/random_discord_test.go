package httpclient_test

import (
	"strings"

	"pgregory.net/rapid"

	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/internal/discordsim/measured"
)

// measuredOperations are those of the measured Discord whose limits a client can know.
var measuredOperations = func() (operations []string) {
	for _, rule := range measured.Rules(measured.Options{}) {
		known := len(rule.SubLimits) == 0 && rule.Shared == nil && rule.Vary == nil
		if known && rule.Method != "" {
			operations = append(operations, rule.Method+" "+onlyIDs(rule.Path))
		}
	}
	return operations
}()

// onlyIDs returns a path template whose variables all are {id}.
func onlyIDs(path string) string {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		if strings.HasPrefix(segment, "{") || segment == "*" {
			segments[i] = "{id}"
		}
	}
	return strings.Join(segments, "/")
}

// drawDiscord may give all operations that have no other rule the limits of the measured Discord, and adds some of
// its operations.
func (r *rules) drawDiscord(t *rapid.T) {
	if !rapid.Bool().Draw(t, "measured Discord") {
		return
	}
	r.add(discordtest.Discord(), "limits of the measured Discord")
	for range rapid.IntRange(1, 5).Draw(t, "measured operations") {
		on := rapid.SampledFrom(measuredOperations).Draw(t, "operation")
		r.operations = append(r.operations, on)
		r.text = append(r.text, "also requested: "+on)
	}
}
