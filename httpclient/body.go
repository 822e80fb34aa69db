package httpclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"

	"github.com/ratelight/ratelight/httpclient/internal/message"
	"github.com/ratelight/ratelight/httpclient/internal/wait"
)

// body gives a request's body again for each attempt.
type body struct {
	get  func() (io.ReadCloser, error) // nil if there is no body, or if it can be sent only once
	next io.ReadCloser                 // the body of the next attempt, nil if get returns it
	gone bool                          // it can be sent only once

	measured    bool // length is that of a body whose request does not say it
	length      int64
	reservation reservation // what it takes in memory
}

// takeBody prepares the request's body so that it can be sent more than once: by its GetBody, or by keeping it in
// memory up to a limit, if there is room. It takes over the request's body.
func (x *roundTrip) takeBody() error {
	b, request, limit := &x.body, x.request, x.maxBufferedBody
	declared := max(request.ContentLength, 0) // 0: not known, as there is a body
	switch {
	case request.Body == nil || request.Body == http.NoBody:
		return nil
	case request.GetBody != nil:
		b.get, b.next = request.GetBody, request.Body
		return nil
	case limit == 0 || declared > limit || x.isStopped() || declared > 0 && !b.reservation.takeAll(declared):
		b.next, b.gone = request.Body, true
		return nil
	case declared > 0:
		limit = declared
	}
	kept, whole, err := x.readWhile(request.Body, limit)
	if err != nil {
		return err
	}
	length := int64(len(kept))
	switch {
	case declared > 0 && length != declared: // net/http would say so when it has sent it
		closeSoon(request.Body)
		err = fmt.Errorf("http: ContentLength=%d with Body length %d", declared, length)
		if !whole {
			err = fmt.Errorf("%w or more", err)
		}
		return err
	case !whole:
		b.next, b.gone = withHead(kept, request.Body), true
		return nil
	}
	b.length, b.measured = length, len(request.Trailer) == 0 // trailers are sent only behind chunks
	b.get = func() (io.ReadCloser, error) {
		if length == 0 && len(request.Trailer) == 0 { // trailers follow a body
			return http.NoBody, nil
		}
		return io.NopCloser(bytes.NewReader(kept)), nil
	}
	return request.Body.Close()
}

// awaitBody gets the body of the next attempt, and waits for its first byte if it is not in memory: a source that gives
// nothing may not hold a lease for which others wait. A request that would be refused does not ask for its body, which
// its client may wait for.
func (x *roundTrip) awaitBody() error {
	b := &x.body
	if b.next == nil && b.get != nil {
		content, err := b.get()
		if err != nil && x.retry.failures > 0 {
			err = x.newRetryError(ErrNotRepeatable, err)
		}
		if err != nil {
			return err
		}
		b.next = content
	}
	if b.next == nil || inMemory(b.next) || x.wouldBeRefused() {
		return nil
	}
	first, _, err := x.readWhile(b.next, 0)
	if err != nil {
		b.next = nil // which is closed
		return err
	}
	b.next = withHead(first, b.next)
	return nil
}

// wouldBeRefused reports that the limiter, or what is known of the credential, refuses the request at once.
func (x *roundTrip) wouldBeRefused() bool {
	if x.isStopped() {
		return true
	}
	if x.manager == nil {
		return false
	}
	predicted, _, err := x.manager.Predict(&x.ask)
	return err != nil || wait.Check(x.request.Context(), x.ask.Route, predicted, x.maxRateLimit()) != nil
}

// isStopped reports that the context of the request has ended, or its credential rests.
func (x *roundTrip) isStopped() bool {
	return x.request.Context().Err() != nil || x.credential.check() != nil
}

// smallBody is how large a body is in bytes that is sent in one piece, or in two.
const smallBody = 32 << 10

// sentInOnePiece reports that there is nothing to be seen of the progress of a body. net/http sends one that it can
// see to be in memory together with the headers, so it is better left as it is.
func sentInOnePiece(content io.Reader, length int64) bool {
	return 0 < length && length <= smallBody && inMemory(content)
}

// What io.NopCloser returns.
var (
	nopCloser         = reflect.TypeOf(io.NopCloser(nil))
	nopCloserWriterTo = reflect.TypeOf(io.NopCloser(new(bytes.Reader)))
)

// inMemory reports a body that is known to be in memory, so that reading it takes no time.
func inMemory(content io.Reader) bool {
	switch t := reflect.TypeOf(content); {
	case content == http.NoBody:
		return true
	case t == nopCloser || t == nopCloserWriterTo:
		content, _ = reflect.ValueOf(content).Field(0).Interface().(io.Reader)
	}
	switch content.(type) {
	case *bytes.Reader, *bytes.Buffer, *strings.Reader:
		return true
	}
	return false
}

// repeatable reports whether another attempt can send the same body.
func (b *body) repeatable() bool { return !b.gone }

// close closes what was not sent, and gives back the room of what was kept.
func (b *body) close() {
	b.reservation.end()
	closeSoon(b.next)
	b.next = nil
}

// maxLooked is how much of a body is looked at, in bytes. Discord's JSON is smaller.
const maxLooked = 1 << 20

// closeSoon closes a body, if there is one. It waits only a moment for that: the Close of a server's request reads
// what is left of it.
func closeSoon(body io.ReadCloser) {
	switch {
	case body == nil:
		return
	case inMemory(body):
		body.Close()
		return
	}
	if closing := start(body.Close); closing.waitBriefly() {
		_ = closing.get()
	}
}

// look looks at a body that can be read again, and reports whether that succeeded, and what was looked for came in a
// moment.
func look[T any](b *body, read func(io.Reader) (T, bool)) (seen T, ok bool) {
	if b.get == nil {
		return seen, false
	}
	content, err := b.get()
	if err != nil {
		return seen, false
	}
	type result struct {
		seen T
		ok   bool
	}
	task := func() (r result) {
		r.seen, r.ok = read(content)
		return r
	}
	var r result
	if inMemory(content) {
		r = task()
	} else if looking := start(task); looking.waitBriefly() {
		r = looking.get()
	}
	closeSoon(content)
	return r.seen, r.ok
}

// decode decodes the beginning of a body that can be read again as JSON, and reports whether that is what it is, and
// came in a moment.
func decode[T any](b *body) (decoded T, ok bool) {
	v, ok := look(b, func(content io.Reader) (v *T, ok bool) {
		err := json.NewDecoder(io.LimitReader(content, maxLooked)).Decode(&v)
		return v, err == nil && v != nil
	})
	if !ok {
		return decoded, false
	}
	return *v, true
}

// fields returns the names of the top-level fields of a JSON body, nil if it has none or cannot be read twice.
func (b *body) fields(header http.Header) []string {
	contentType := message.HeaderValue(header, "Content-Type")
	if contentType != "" && !strings.Contains(strings.ToLower(contentType), "json") {
		return nil
	}
	object, ok := decode[map[string]json.RawMessage](b)
	if !ok {
		return nil
	}
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	return names
}
