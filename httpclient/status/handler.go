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

// Lifter ends rests of credentials and holds of limits. *httpclient.Transport implements it.
type Lifter interface {
	// RestingCredentials returns the credentials that rest: they are not used for some time, because Discord has
	// refused them.
	RestingCredentials() []httpclient.RestingCredential
	// LiftCredential ends the rests of all credentials with the given hash, and returns the number of these credentials.
	LiftCredential(hash string) int
	// LiftHolds ends all rests of credentials and all holds after 429s.
	LiftHolds()
}

// Option configures the handler.
type Option func(*handler)

// WithLift adds to the page a list of the credentials that rest, and buttons that end rests and holds. Without
// WithLift, the page cannot change anything.
//
// Each button sends a form in a POST, and scripts can do the same. The form is what=all for everything, what=holds for
// the manager's holds, what=budget for the budget of invalid requests, or credential=HASH for one credential. The
// status of the response is 200 on success, 404 if no credential has the hash, 400 for any other form, and 403 if a
// page of another origin made a browser send the form.
func WithLift(lifter Lifter) Option {
	return func(h *handler) { h.lifter, h.sampler.lifter = lifter, lifter }
}

// Handler returns a handler that answers GET and HEAD with the page of a manager, or, if the query is ?format=json,
// with the numbers on the page. Other methods get a 405, except that POST is accepted if WithLift is given. The handler
// ignores the path of a request. Handler panics if the manager is nil. Transport.Manager returns nil if the limiter of
// httpclient.WithLimiter is not a manager.
//
// The response to ?format=json is an object. The field status is a buckets.Status with at most 100 buckets, 100 global
// limits, 100 declared limits and 100 edges. The field age_seconds is the age of that status, which is less than a
// second. The field history has lists of the same length, with one entry for each sample of the last five minutes,
// oldest first: time (in milliseconds since 1970), waiting, in_flight, granted and, inside refused, one list of 429s
// for each class. The entries of granted and refused are totals since the manager was made. With WithLift, the field
// credentials lists at most 100 values of type httpclient.RestingCredential.
//
// The handler is safe for concurrent use. All viewers share the samples. To take a sample needs about a millisecond,
// however many buckets there are.
func Handler(manager *buckets.RESTBucketManager, options ...Option) http.Handler {
	if manager == nil {
		panic("status: the manager is nil: the limiter of the transport is no manager")
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
	lifter  Lifter // nil without WithLift: a POST gets a 405
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

// maxForm bounds the size of a form, in bytes.
const maxForm = 4 << 10

// lift does what the form says: it ends rests or holds, resets the budget of invalid requests, or does all of this.
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
	_, _ = w.Write(content) // an error means that the client has disconnected
}

// contentPolicy returns a Content-Security-Policy that allows only the page's own script and style, identified by their
// hashes, and requests to the page's origin.
func contentPolicy(page []byte) string {
	return fmt.Sprintf("default-src 'none'; script-src %s; style-src %s; img-src data:; connect-src 'self'; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		hashOf(page, "script"), hashOf(page, "style"))
}

// hashOf returns the hash of an element's content, in the syntax of the policy. The page has only one element of the
// given name.
func hashOf(page []byte, element string) string {
	_, content, _ := bytes.Cut(page, []byte("<"+element+">"))
	content, _, _ = bytes.Cut(content, []byte("</"+element+">"))
	// Browsers hash the text with normalized line ends.
	sum := sha256.Sum256([]byte(strings.ReplaceAll(string(content), "\r\n", "\n")))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
