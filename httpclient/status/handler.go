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
	"github.com/ratelight/ratelight/httpclient"
)

//go:embed page.html
var page []byte

// Lifter ends what stops requests: an *httpclient.Transport, or something around one.
type Lifter interface {
	// RestingCredentials returns the credentials that are not used for now.
	RestingCredentials() []httpclient.RestingCredential
	// LiftCredential lets those be used again that have a hash, and returns how many there are.
	LiftCredential(hash string) int
	// LiftHolds ends all effects of earlier refusals.
	LiftHolds()
}

// Option configures the handler.
type Option func(*handler)

// WithLift shows the credentials that are not used for now, and buttons that lift what stops requests. Without it the
// page changes nothing.
//
// The buttons send a POST with a form, and so can scripts: what=all for everything, what=holds for the manager's holds,
// what=budget for the budget of invalid requests, or credential=HASH for one credential. The answer is 200; 404 if no
// credential has the hash; 400 for anything else; and 403 if a page of another origin has made a browser send it.
func WithLift(lifter Lifter) Option {
	return func(h *handler) { h.lifter, h.sampler.lifter = lifter, lifter }
}

// Handler returns a handler that serves the page of a manager, and with ?format=json its numbers, to GET and HEAD;
// other methods are answered with 405, but see WithLift. The path does not matter. It panics if the manager is nil, as
// Transport.Manager is with httpclient.WithLimiter.
//
// The answer to ?format=json is an object: status is a buckets.Status of at most 100 buckets, global limits, declared
// limits and edges; age_seconds is how long ago it was taken, less than a second; history has lists of the same length,
// one entry for each sample of the last five minutes, oldest first: time in milliseconds since 1970, waiting,
// in_flight, granted, and refused by class, the last two counted since the manager was made; credentials, only with
// WithLift, is a list of at most 100 httpclient.RestingCredential.
//
// It is safe for concurrent use. Several viewers share a sample. One takes about a millisecond, however many buckets
// there are.
func Handler(manager *buckets.RESTBucketManager, options ...Option) http.Handler {
	if manager == nil {
		panic("status: the manager is nil: a transport with WithLimiter has none")
	}
	h := &handler{sampler: sampler{manager: manager}, policy: contentPolicy(page), methods: "GET, HEAD"}
	for _, option := range options {
		if option != nil {
			option(h)
		}
	}
	if h.lifter != nil {
		h.methods += ", POST"
	}
	return h
}

type handler struct {
	sampler sampler
	policy  string
	methods string
	lifter  Lifter // nil: nothing can be lifted
	origins http.CrossOriginProtection
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
	case r.Method == http.MethodPost && h.lifter != nil:
		h.lift(w, r)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		header.Set("Allow", h.methods)
		http.Error(w, "method not allowed: use one of "+h.methods, http.StatusMethodNotAllowed)
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

// maxForm is the size of the largest form that is read, in bytes.
const maxForm = 4 << 10

// lift ends what the form says.
func (h *handler) lift(w http.ResponseWriter, r *http.Request) {
	if err := h.origins.Check(r); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	switch what, hash := r.FormValue("what"), r.FormValue("credential"); {
	case hash != "" && what == "":
		if h.lifter.LiftCredential("#"+strings.TrimPrefix(hash, "#")) == 0 {
			http.Error(w, "no credential has that hash", http.StatusNotFound)
			return
		}
	case what == "all" && hash == "":
		h.lifter.LiftHolds()
		h.sampler.manager.LiftBudget()
	case what == "holds" && hash == "":
		h.sampler.manager.LiftHolds()
	case what == "budget" && hash == "":
		h.sampler.manager.LiftBudget()
	default:
		http.Error(w, "expected a form with what=all, holds or budget, or credential=HASH", http.StatusBadRequest)
		return
	}
	h.sampler.forget()
	write(w, "text/plain; charset=utf-8", []byte("lifted\n"))
}

func write(w http.ResponseWriter, contentType string, content []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	_, _ = w.Write(content) // that the client has gone is not our concern
}

// contentPolicy returns a Content-Security-Policy that allows the page its own script and style, known by their hashes,
// and requests to where it came from; and nothing else.
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
