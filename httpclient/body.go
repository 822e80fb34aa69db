package httpclient

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ratelight/ratelight/buckets"
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

// take prepares the request's body so that it can be sent more than once: by its GetBody, or by keeping up to limit
// bytes of it in memory, if there is room, which it gives up when the request's context or life ends. It takes over
// the request's body.
func (b *body) take(life context.Context, request *http.Request, limit int64) error {
	declared := max(request.ContentLength, 0) // 0: not known, as there is a body
	switch {
	case request.Body == nil || request.Body == http.NoBody:
		return nil
	case request.GetBody != nil:
		b.get, b.next = request.GetBody, request.Body
		return nil
	case limit == 0 || declared > limit || declared > 0 && !b.reservation.takeAll(declared):
		b.next, b.gone = request.Body, true
		return nil
	case declared > 0:
		limit = declared
	}
	kept, whole, err := b.reservation.readWhile(life, request.Context(), request.Body, limit, declared > 0)
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
	defer x.measure(&x.times.waited)()
	ctx := x.credential.untilStopped(x.request.Context())
	defer x.credential.endWait()
	if x.attemptTimeout > 0 {
		var end context.CancelFunc
		ctx, end = context.WithTimeoutCause(ctx, x.attemptTimeout,
			&AttemptTimeoutError{Route: x.route(), After: x.attemptTimeout})
		defer end()
	}
	first, _, err := b.reservation.readWhile(x.life, ctx, b.next, 0, false)
	if err != nil {
		b.next = nil // which is closed
		return err
	}
	b.next = withHead(first, b.next)
	return nil
}

// wouldBeRefused reports that the limiter, or what is known of the credential, refuses the request at once.
func (x *roundTrip) wouldBeRefused() bool {
	if x.request.Context().Err() != nil || x.credential.check() != nil {
		return true
	}
	if x.manager == nil {
		return false
	}
	predicted, _, err := x.manager.Predict(&x.ask)
	return err != nil || wait.Check(x.request.Context(), x.ask.Route, predicted, x.maxRateLimit()) != nil
}

// addNonce gives a message without a nonce one, if its body is JSON and can be sent again.
func (b *body) addNonce(request *http.Request) {
	encoding, known := message.EncodingOf(request.Header)
	isJSON := message.IsJSON(message.HeaderValue(request.Header, "Content-Type"))
	if !known || encoding != message.Plain || len(request.Trailer) > 0 || !isJSON {
		return
	}
	text, ok := look(b, func(content io.Reader) ([]byte, bool) {
		text, err := io.ReadAll(io.LimitReader(content, maxLooked+1))
		return text, err == nil && len(text) <= maxLooked
	})
	if !ok {
		return
	}
	text, ok = withNonce(text)
	if !ok || !b.reservation.takeAll(max(int64(len(text))-b.reservation.taken, 0)) {
		return
	}
	closeSoon(b.next) // another one is sent
	b.next, b.length, b.measured = nil, int64(len(text)), true
	b.get = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }
}

// nonceLength is how long a nonce may be (Discord's documentation).
const nonceLength = 25

// withNonce returns a JSON object with a nonce that is enforced, and reports whether the text is one that has none.
func withNonce(text []byte) ([]byte, bool) {
	var object map[string]json.RawMessage
	if json.Unmarshal(text, &object) != nil || object == nil || object["nonce"] != nil || object["enforce_nonce"] != nil {
		return nil, false
	}
	nonce := `"nonce":"` + rand.Text()[:nonceLength] + `","enforce_nonce":true`
	if len(object) > 0 {
		nonce += ","
	}
	brace := bytes.IndexByte(text, '{') + 1
	return slices.Concat(text[:brace], []byte(nonce), text[brace:]), true
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

// memoryBudget is how much memory the bodies take that the requests of a transport keep, all together.
type memoryBudget struct {
	max  int64
	used atomic.Int64
}

// reservation is what one request has taken of it. Only its own goroutine uses it.
type reservation struct {
	of    *memoryBudget
	taken int64
}

// take takes up to so many bytes, and returns how many it got.
func (r *reservation) take(most int64) int64 {
	for {
		used := r.of.used.Load()
		got := min(most, r.of.max-used)
		if got <= 0 {
			return 0
		}
		if r.of.used.CompareAndSwap(used, used+got) {
			r.taken += got
			return got
		}
	}
}

// takeAll takes so many bytes, or none.
func (r *reservation) takeAll(n int64) bool {
	got := r.take(n)
	if got == n {
		return true
	}
	r.giveBack(got)
	return false
}

func (r *reservation) giveBack(n int64) {
	if n > 0 {
		r.taken -= n
		r.of.used.Add(-n)
	}
}

// end gives back all of it.
func (r *reservation) end() { r.giveBack(r.taken) }

// endWith gives back all of it when the response has been read or closed: until then the transport below holds on to
// the request.
func (r *reservation) endWith(response *http.Response) {
	if r.taken == 0 || response.Body == http.NoBody || isSwitched(response) {
		return
	}
	own := *r
	r.taken = 0
	response.Body = &bodyWithEnd{response.Body, sync.OnceFunc(own.end)}
}

// bodyWithEnd is the body of a response with which something ends: when it has been read, or is closed.
type bodyWithEnd struct {
	io.ReadCloser
	end func() // may be called often
}

func (b *bodyWithEnd) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end()
	}
	return n, err
}

func (b *bodyWithEnd) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// firstPiece is how much memory a body of unknown length gets at first, in bytes. Most are smaller.
const firstPiece = 4 << 10

// readWhile reads a body until one of the contexts ends, and reports whether it came to its end: it stops after limit
// bytes, and where there is no more room. After an error it closes the body. When a context ends it does so meanwhile,
// which ends a read from a pipe; one that goes on all the same is left alone. It takes room as it goes, unless that of
// limit bytes has been taken.
func (r *reservation) readWhile(
	life, ctx context.Context, body io.ReadCloser, limit int64, taken bool,
) (kept []byte, whole bool, err error) {
	if inMemory(body) {
		return r.read(body, limit, taken)
	}
	alive, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(life, end)()
	stop := context.AfterFunc(alive, func() { body.Close() })
	defer stop() // should the body panic

	own := *r // until it has been read
	r.taken = 0
	reading := start(func() (h head) {
		h.text, h.whole, h.err = own.read(body, limit, taken)
		return h
	})
	why := func() error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return buckets.ErrClosed
	}
	if !reading.wait(alive) && !reading.waitBriefly() {
		reading.leave(func(head) { own.end() })
		return nil, false, why()
	}
	*r = own
	h := reading.get()
	if !stop() {
		return nil, false, why()
	}
	if h.err != nil {
		closeSoon(body)
	}
	return h.text, h.whole, h.err
}

// read is readWhile without an end from outside.
func (r *reservation) read(body io.Reader, limit int64, taken bool) (kept []byte, whole bool, err error) {
	size := min(limit, DefaultMaxBufferedBody)
	if !taken {
		size = r.take(min(limit, firstPiece))
	}
	kept = make([]byte, 0, size+1) // the last byte shows that the body goes on
	for {
		n, err := body.Read(kept[len(kept):cap(kept)])
		kept = kept[:len(kept)+n]
		if int64(len(kept)) > size {
			more := min(max(size, firstPiece), limit-size)
			if !taken {
				more = r.take(more)
			}
			if more == 0 {
				if err == io.EOF {
					err = nil
				}
				return kept, false, err
			}
			size += more
			kept = append(make([]byte, 0, size+1), kept...)
		}
		switch err {
		case nil:
		case io.EOF:
			if spare := size - int64(len(kept)); spare > 0 && !taken {
				r.giveBack(spare)
				kept = slices.Clone(kept)
			}
			return kept, true, nil
		default:
			return kept, false, err
		}
	}
}
