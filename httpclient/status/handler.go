package status

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/ratelight/ratelight/buckets"
)

//go:embed page.html
var page []byte

// Handler returns a handler that serves the page of a manager, and with ?format=json its numbers, to GET and HEAD; other methods are
// answered with 405. The path does not matter. It panics if the manager is nil, as Transport.Manager is with httpclient.WithLimiter.
//
// The answer to ?format=json is an object: status is a buckets.Status of at most 100 buckets, global limits, declared limits and edges; age_seconds is how long
// ago it was taken, less than a second; history has lists of the same length, one entry for each sample of the last five minutes,
// oldest first: time in milliseconds since 1970, waiting, in_flight, granted, and refused by class, the last two counted since the
// manager was made.
//
// It is safe for concurrent use. Several viewers share a sample. One takes about a millisecond, however many buckets there are.
func Handler(manager *buckets.RESTBucketManager) http.Handler {
	if manager == nil {
		panic("status: the manager is nil: a transport with WithLimiter has none")
	}
	return &handler{sampler: sampler{manager: manager}, policy: contentPolicy(page)}
}

type handler struct {
	sampler sampler
	policy  string
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", h.policy)
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed: use GET or HEAD", http.StatusMethodNotAllowed)
	case r.URL.Query().Get("format") == "json":
		text, err := h.sampler.encoded()
		if err != nil {
			http.Error(w, "the status cannot be encoded", http.StatusInternalServerError)
			return
		}
		write(w, "application/json", text)
	default:
		write(w, "text/html; charset=utf-8", page)
	}
}

func write(w http.ResponseWriter, contentType string, content []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	_, _ = w.Write(content) // that the client has gone is not our concern
}

// contentPolicy returns a Content-Security-Policy that allows the page its own script and style, known by their hashes, and requests to where
// it came from; and nothing else.
func contentPolicy(page []byte) string {
	return fmt.Sprintf("default-src 'none'; script-src %s; style-src %s; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		hashOf(page, "script"), hashOf(page, "style"))
}

// hashOf returns the hash of what is in the page's only element of that name, as a policy names it.
func hashOf(page []byte, element string) string {
	_, content, _ := bytes.Cut(page, []byte("<"+element+">"))
	content, _, _ = bytes.Cut(content, []byte("</"+element+">"))
	sum := sha256.Sum256([]byte(strings.ReplaceAll(string(content), "\r\n", "\n"))) // as browsers read it
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
