package httpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"

	"github.com/ratelight/ratelight/httpclient/internal/message"
)

// body gives a request's body again for each attempt.
type body struct {
	get func() (io.ReadCloser, error) // nil if there is no body, or if it can be sent only once
	// once is the body that cannot be repeated, nil after the first attempt.
	once io.ReadCloser
	gone bool

	measured bool // length is that of a body whose request does not say it
	length   int64
	room     room // what it takes in memory
}

// take prepares the request's body so that it can be sent more than once: by its GetBody, or by keeping up to limit bytes of it
// in memory, if there is room, which it gives up when the request's context or life ends. It takes over the request's body.
func (b *body) take(life context.Context, request *http.Request, limit int64) error {
	declared := max(request.ContentLength, 0) // 0: not known, as there is a body
	switch {
	case request.Body == nil || request.Body == http.NoBody:
		return nil
	case request.GetBody != nil:
		b.get, b.once = request.GetBody, request.Body
		return nil
	case limit == 0 || declared > limit || declared > 0 && !b.room.takeAll(declared):
		b.once, b.gone = request.Body, true
		return nil
	case declared > 0:
		limit = declared
	}
	kept, whole, err := b.room.readWhile(life, request.Context(), request.Body, limit, declared > 0)
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
		b.once, b.gone = withHead(kept, request.Body), true
		return nil
	}
	b.length, b.measured = length, len(request.Trailer) == 0 // trailers are sent only behind chunks
	b.get = func() (io.ReadCloser, error) {
		if length == 0 {
			return http.NoBody, nil
		}
		return io.NopCloser(bytes.NewReader(kept)), nil
	}
	return request.Body.Close()
}

// next returns the body for the next attempt, nil if the request has none.
func (b *body) next() (io.ReadCloser, error) {
	if b.once != nil {
		once := b.once
		b.once = nil
		return once, nil
	}
	if b.get == nil {
		return nil, nil
	}
	return b.get()
}

// smallBody is how large a body is in bytes that is sent in one piece, or in two.
const smallBody = 32 << 10

// small reports that there is nothing to be seen of the progress of a body. net/http sends one that it can see to be in memory
// together with the headers, so it is better left as it is.
func small(content io.Reader, length int64) bool {
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
	b.room.end()
	closeSoon(b.once)
	b.once = nil
}

// maxLooked is how much of a body is looked at, in bytes. Discord's JSON is smaller.
const maxLooked = 1 << 20

// closeSoon closes a body, if there is one. It waits only a moment for that: the Close of a server's request reads what is left of it.
func closeSoon(body io.ReadCloser) {
	switch {
	case body == nil:
		return
	case inMemory(body):
		body.Close()
		return
	}
	if closing := start(body.Close); closing.waitForMoment() {
		_ = closing.get()
	}
}

// decode decodes the beginning of a body that can be read again as JSON, and reports whether that is what it is, and came in a moment.
func decode[T any](b *body) (decoded T, ok bool) {
	if b.get == nil {
		return decoded, false
	}
	content, err := b.get()
	if err != nil {
		return decoded, false
	}
	look := func() (v *T) {
		if json.NewDecoder(io.LimitReader(content, maxLooked)).Decode(&v) != nil {
			return nil
		}
		return v
	}
	var v *T
	if inMemory(content) {
		v = look()
	} else if looking := start(look); looking.waitForMoment() {
		v = looking.get()
	}
	closeSoon(content)
	if v == nil {
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
