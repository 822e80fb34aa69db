package load

import (
	"net/http"
	"slices"
	"strings"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// inProcess is a client in this process: one transport.
type inProcess struct{ transport *httpclient.Transport }

// connect returns a transport with the options of the scenario on top of a simulated Discord.
func (s *Scenario) connect(server *discordsim.Server) *inProcess {
	limits := []buckets.Option{buckets.WithLogger(nil), buckets.WithGlobalLimit(s.server.Global.Limit)}
	if s.Targets.InOrder {
		limits = append(limits, buckets.WithOrdered())
	}
	options := append(slices.Clone(s.options),
		httpclient.WithBuckets(limits...), httpclient.WithBase(server.RoundTripper()))
	return &inProcess{httpclient.NewTransport(options...)}
}

func (c *inProcess) RoundTrip(_ int, request *http.Request) (*http.Response, error) {
	return c.transport.RoundTrip(request)
}

func (c *inProcess) Close() { _ = c.transport.Close() } // there is never an error

// entered returns how many requests have been granted, wait in a queue, or have ended without a grant.
func (c *inProcess) entered() int {
	stats := c.transport.Manager().Stats()
	again := 0 // number of requests that were granted again after a refusal
	for _, n := range stats.Responses[1:] {
		again += int(n)
	}
	return int(stats.Granted+stats.TooLong+stats.QueueFull+stats.OverBudget+stats.Cancelled) + stats.Waiting - again
}

// kinds returns which kind of bucket the client takes each bucket for, by hash and major parameter.
func (c *inProcess) kinds() map[string]string {
	known := make(map[string]string)
	for b := range c.transport.Manager().Buckets() {
		known[b.Hash+" "+strings.TrimPrefix(b.Major, "-")] = b.Kind.String()
	}
	return known
}
