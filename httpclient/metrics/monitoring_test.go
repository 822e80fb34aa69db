package metrics_test

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/metrics"
	"github.com/ratelight/ratelight/internal/memoryengine"
)

const monitoring = "../proxy/monitoring/"

// exported returns the names of all series, each with the values of its labels. The manager behind these series shares
// limits, and requests have waited for one of its windows.
func exported(t *testing.T) map[string]map[string][]string {
	t.Helper()
	all := make(map[string]map[string][]string)
	synctest.Test(t, func(t *testing.T) {
		engine := memoryengine.New()
		defer engine.Close()
		store, err := shared.New(engine)
		require.NoError(t, err)
		manager := buckets.NewRESTBucketManager(buckets.WithShared(store),
			buckets.WithKnownLimits(buckets.ChannelNameAndTopic))
		require.NoError(t, manager.Start())
		defer manager.Close()
		below := &script{answers: []func(*http.Request) (*http.Response, error){
			answer(200), answer(200), answer(200, limits("0", "1")...),
		}}
		transport := httpclient.NewTransport(httpclient.WithLimiter(manager), httpclient.WithBase(below))
		defer transport.Close()
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(metrics.New(manager, transport))
		const gateway = "https://discord.com/api/gateway"
		for _, url := range []string{gateway, gateway, messages, messages} {
			require.NoError(t, get(t, transport, url))
		}
		families, err := registry.Gather()
		require.NoError(t, err)
		for _, family := range families {
			labels := make(map[string][]string)
			for _, m := range family.GetMetric() {
				for _, l := range m.GetLabel() {
					labels[l.GetName()] = append(labels[l.GetName()], l.GetValue())
				}
			}
			names := []string{family.GetName()}
			if family.GetMetric()[0].GetHistogram() != nil {
				names = []string{family.GetName() + "_bucket", family.GetName() + "_count", family.GetName() + "_sum"}
				labels["le"] = nil
			}
			for _, name := range names {
				all[name] = labels
			}
		}
	})
	return all
}

var (
	metricName = regexp.MustCompile(`\b(?:ratelight|http_client)_[a-z0-9_]+`)
	selector   = regexp.MustCompile(`\b((?:ratelight|http_client)_[a-z0-9_]+)\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`([a-z_]+)(=~|!=|=)"([^"]*)"`)
)

// assertExported asserts that all series and labels in an expression exist.
func assertExported(t *testing.T, all map[string]map[string][]string, where, expression string) {
	t.Helper()
	for _, name := range metricName.FindAllString(expression, -1) {
		assert.Contains(t, all, name, where)
	}
	for _, found := range selector.FindAllStringSubmatch(expression, -1) {
		for _, m := range matcher.FindAllStringSubmatch(found[2], -1) {
			label, values := m[1], strings.Split(m[3], "|")
			if label == "job" || label == "instance" {
				continue
			}
			known, ok := all[found[1]][label]
			assert.True(t, ok, "%s: %s has no label %s", where, found[1], label)
			for _, value := range values {
				assert.True(t, label == "le" || slices.Contains(known, value), "%s: %s has no %s %q", where, found[1], label, value)
			}
		}
	}
}

func TestAlertsNameWhatThereIs(t *testing.T) {
	t.Parallel()
	all := exported(t)
	for _, name := range []string{"alerts.yml", "alerts_test.yml"} {
		text, err := os.ReadFile(monitoring + name)
		require.NoError(t, err)
		used := 0
		for line := range strings.Lines(string(text)) {
			used += len(metricName.FindAllString(line, -1))
			assertExported(t, all, name, line)
		}
		assert.Greater(t, used, 15, name)
	}
}

func TestTheDashboardNamesWhatThereIs(t *testing.T) {
	t.Parallel()
	all := exported(t)
	text, err := os.ReadFile(monitoring + "dashboard.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Query any }
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	shown := make(map[string]bool)
	ids := make(map[int]bool)
	taken := make(map[[2]int]string)
	for _, p := range dashboard.Panels {
		assert.False(t, ids[p.ID], "two panels are number %d", p.ID)
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				require.Empty(t, taken[[2]int{x, y}], "%s overlaps another panel", p.Title)
				taken[[2]int{x, y}] = p.Title
			}
		}
		for _, target := range p.Targets {
			assertExported(t, all, p.Title, target.Expr)
			for _, name := range metricName.FindAllString(target.Expr, -1) {
				shown[name] = true
			}
		}
	}
	for _, v := range dashboard.Templating.List {
		query, err := json.Marshal(v.Query)
		require.NoError(t, err)
		assertExported(t, all, "a variable", string(query))
	}
	assert.Contains(t, string(text), `{__name__=~\"ratelight_.+_total\"`, "one panel must show all counters")
	for name := range all {
		if !strings.HasSuffix(name, "_sum") && !strings.HasSuffix(name, "_count") && !strings.HasSuffix(name, "_total") {
			assert.True(t, shown[name], "no panel shows %s", name)
		}
	}
}
