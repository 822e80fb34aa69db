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

// body provides a request's body for each attempt.
type body struct {
	get  func() (io.ReadCloser, error) // nil if there is no body, or if the body can be sent only once
	next io.ReadCloser                 // the body of the next attempt; nil if there is none, or if get returns it
	gone bool                          // the body can be sent only once

	measured    bool // whether length, in bytes, is sent as the Content-Length
	length      int64
	reservation reservation // of memory for the body
}

// takeBody takes over the request's body and prepares it for more than one attempt. If the request has a GetBody,
// takeBody uses GetBody. Otherwise, if the body is small enough and the memory budget has room, takeBody reads the body
// into memory. All other bodies can be sent only once.
func (x *roundTrip) takeBody() error {
	b, request, limit := &x.body, x.request, x.maxBufferedBody
	declared := max(request.ContentLength, 0) // 0 if the length is not known
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
	case declared > 0 && length != declared: // net/http would notice this only after it has sent the body
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
	b.length, b.measured = length, len(request.Trailer) == 0 // net/http sends trailers only after a chunked body
	b.get = func() (io.ReadCloser, error) {
		if length == 0 && len(request.Trailer) == 0 { // net/http sends no trailers after http.NoBody
			return http.NoBody, nil
		}
		return io.NopCloser(bytes.NewReader(kept)), nil
	}
	return request.Body.Close()
}

// awaitBody gets the body of the next attempt. If the body is not in memory, awaitBody waits for its first byte, so
// that the request does not hold a lease while a read of its body blocks. awaitBody does not read the body of a request
// that would be rejected at once, because in a proxy the first read tells the client to upload the body (100-continue).
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
		b.next = nil // readWhile has closed the body
		return err
	}
	b.next = withHead(first, b.next)
	return nil
}

// wouldBeRefused reports whether the request would be rejected at once because of its context, its credential or the
// limiter.
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

// isStopped reports whether the request's context has ended or its credential rests.
func (x *roundTrip) isStopped() bool {
	return x.request.Context().Err() != nil || x.credential.check() != nil
}

// smallBody is the largest size, in bytes, of a body in memory whose progress is not watched. The base transport sends
// such a body in one or two pieces.
const smallBody = 32 << 10

// sentInOnePiece reports whether a body is in memory and too small to show any progress. Such a body is not wrapped,
// because net/http sends a body together with the headers only if it can see that the body is in memory.
func sentInOnePiece(content io.Reader, length int64) bool {
	return 0 < length && length <= smallBody && inMemory(content)
}

// These are the two types that io.NopCloser returns.
var (
	nopCloser         = reflect.TypeOf(io.NopCloser(nil))
	nopCloserWriterTo = reflect.TypeOf(io.NopCloser(new(bytes.Reader)))
)

// inMemory reports whether a body is known to be in memory, so that reading it does not block.
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

// repeatable reports whether another attempt can send the same body. It returns true if there is no body.
func (b *body) repeatable() bool { return !b.gone }

// close closes a body that was not sent, and ends the reservation.
func (b *body) close() {
	b.reservation.end()
	closeSoon(b.next)
	b.next = nil
}

// maxLooked bounds how many bytes of a request's body are inspected. JSON bodies for Discord are smaller.
const maxLooked = 1 << 20

// closeSoon closes a body that is not nil. It waits for Close for briefWait at most, because Close may block: in a
// proxy, closing the body of the client's request reads the rest of that body.
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

// look calls read with a new copy of a repeatable body, and returns the results of read. If the body is not in memory
// and read does not return within briefWait, ok is false.
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

// decode decodes the JSON value with which a repeatable body begins. ok is false if there is no such value of type T,
// or if it was not read within briefWait.
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

// fields returns the top-level field names of a JSON body, nil if the body is not JSON or can be sent only once.
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
