package measured

import (
	_ "embed"
	"strings"

	"github.com/ratelight/ratelight/internal/discordsim"
)

//go:embed routes.txt
var table string

// route is one line of routes.txt.
type route struct {
	method, path string
	kind         string
	family       string // "" if the route has a bucket of its own
}

// readTable returns the measured routes.
func readTable() []route {
	var routes []route
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := append(strings.Fields(line), "")
		routes = append(routes, route{method: fields[0], path: fields[1], kind: fields[2], family: fields[3]})
	}
	return routes
}

// name returns the name of the route's limit: its family, or the route itself.
func (r *route) name() string {
	if r.family != "" {
		return r.family
	}
	return r.method + " " + r.path
}

// rule returns the simulator's rule for the route, without the limits that hide adds. If the numbers of the route's
// limit are not known, the rule has the typical limit of its kind.
func (r *route) rule() discordsim.Rule {
	quota, ok := numbers[r.name()]
	if !ok {
		quota = typical[r.kind]
	}
	rule := discordsim.Rule{Method: r.method, Path: pattern(r.path), Quota: quota}
	if quota.Kind != discordsim.KindUnlimited {
		rule.Hash = hash(r.name())
	}
	return rule
}

// pattern returns a path template for the simulator. The simulator recognizes variable segments by their form, but a
// file name has no such form, so "*" stands for it.
func pattern(path string) string { return strings.ReplaceAll(path, "{upload_filename}", "*") }
