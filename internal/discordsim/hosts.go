package discordsim

import (
	"fmt"
	"net/http"
)

// Hosts is a transport that reaches several servers by their host names (without a port): Discord and, for example,
// servers of attachments or redirects. "" stands for all hosts that are not listed.
type Hosts map[string]http.RoundTripper

// RoundTrip sends a request to the server of its host.
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
