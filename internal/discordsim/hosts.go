package discordsim

import (
	"fmt"
	"net/http"
)

// Hosts is a transport that reaches several servers: Discord and, for example, servers of attachments or targets of
// redirects. The keys are host names without a port. The key "" stands for all hosts that are not listed.
type Hosts map[string]http.RoundTripper

// RoundTrip sends a request to the server for the host in the request's URL.
func (h Hosts) RoundTrip(r *http.Request) (*http.Response, error) {
	server := h[r.URL.Hostname()]
	if server == nil {
		server = h[""]
	}
	if server == nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, fmt.Errorf("discordsim: no such host: %s", r.URL.Hostname())
	}
	return server.RoundTrip(r)
}
