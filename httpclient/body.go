package httpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
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

// sentOnce marks the body of a Client's request of which so much has been read already that it is too long to be kept.
type sentOnce struct{ io.ReadCloser }

// take prepares the request's body so that it can be sent more than once: by its GetBody, or by keeping up to limit bytes of it
// in memory, if there is room, which it gives up when the request's context or life ends. It takes over the request's body.
func (b *body) take(life context.Context, request *http.Request, limit int64) error {
	declared := max(request.ContentLength, 0) // 0: not known, as there is a body
	_, once := request.Body.(sentOnce)
	switch {
	case request.Body == nil || request.Body == http.NoBody:
		return nil
	case request.GetBody != nil:
		b.get, b.once = request.GetBody, request.Body
		return nil
	case once || limit == 0 || declared > limit || declared > 0 && !b.room.takeAll(declared):
		b.once, b.gone = request.Body, true
		return nil
	case declared > 0:
		limit = declared
	}
	kept, whole, err := b.room.readWhile(life, request.Context(), request.Body, limit, declared > 0)
	length := int64(len(kept))
	if err == nil && declared > 0 && length != declared { // net/http would say so when it has sent it
		err = fmt.Errorf("http: ContentLength=%d with Body length %d", declared, length)
		if !whole {
			err = fmt.Errorf("%w or more", err)
		}
	}
	switch {
	case err != nil:
		request.Body.Close()
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
func (b *body) small(length int64) bool { return b.get != nil && 0 < length && length <= smallBody }

// repeatable reports whether another attempt can send the same body.
func (b *body) repeatable() bool { return !b.gone }

// close closes what was not sent, and gives back the room of what was kept.
func (b *body) close() {
	b.room.end()
	if b.once != nil {
		b.once.Close()
		b.once = nil
	}
}

const (
	// maxLooked is how much of a body is looked at, in bytes. Discord's JSON is smaller.
	maxLooked = 1 << 20
	// lookPatience is for how long, should GetBody return what has to be waited for.
	lookPatience = 100 * time.Millisecond
)

// decode decodes the beginning of a body that can be read again as JSON, and reports whether that is what it is.
func (b *body) decode(into any) bool {
	if b.get == nil {
		return false
	}
	content, err := b.get()
	if err != nil {
		return false
	}
	defer content.Close()
	giveUp := time.AfterFunc(lookPatience, func() { content.Close() })
	defer giveUp.Stop()
	return json.NewDecoder(io.LimitReader(content, maxLooked)).Decode(into) == nil
}

// fields returns the names of the top-level fields of a JSON body, nil if it has none or cannot be read twice.
func (b *body) fields(header http.Header) []string {
	contentType := valueOf(header, "Content-Type")
	if contentType != "" && !strings.Contains(strings.ToLower(contentType), "json") {
		return nil
	}
	var object map[string]json.RawMessage
	if !b.decode(&object) {
		return nil
	}
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	return names
}
