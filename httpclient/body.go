package httpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/ratelight/ratelight/buckets"
)

// body gives a request's body again for each attempt.
type body struct {
	get func() (io.ReadCloser, error) // nil if there is no body, or if it can be sent only once
	// once is the body that cannot be repeated, nil after the first attempt.
	once io.ReadCloser
	gone bool
}

// take prepares the request's body so that it can be sent more than once: by its GetBody, or by keeping up to limit bytes of it
// in memory, which it gives up when the request's context or life ends. It takes over the request's body.
func (b *body) take(life context.Context, request *http.Request, limit int64) error {
	switch {
	case request.Body == nil || request.Body == http.NoBody:
		return nil
	case request.GetBody != nil:
		b.get, b.once = request.GetBody, request.Body
		return nil
	case request.ContentLength > limit || limit == 0:
		b.once, b.gone = request.Body, true
		return nil
	}
	kept, err := readWhile(life, request.Context(), request.Body, max(limit, limit+1)) // the sum overflows for the largest
	if err != nil {
		request.Body.Close()
		return err
	}
	if int64(len(kept)) > limit {
		b.once, b.gone = withHead(kept, request.Body), true
		return nil
	}
	b.get = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(kept)), nil }
	return request.Body.Close()
}

// readWhile reads up to limit bytes while both contexts live. When one ends it closes the body, which ends a read from a pipe.
func readWhile(life, ctx context.Context, body io.ReadCloser, limit int64) ([]byte, error) {
	giveUp := func() { body.Close() }
	stopLife, stopContext := context.AfterFunc(life, giveUp), context.AfterFunc(ctx, giveUp)
	kept, err := io.ReadAll(io.LimitReader(body, limit))
	alive, wanted := stopLife(), stopContext()
	switch {
	case !wanted:
		return nil, ctx.Err()
	case !alive:
		return nil, buckets.ErrClosed
	}
	return kept, err
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

// repeatable reports whether another attempt can send the same body.
func (b *body) repeatable() bool { return !b.gone }

// close closes what was not sent.
func (b *body) close() {
	if b.once != nil {
		b.once.Close()
		b.once = nil
	}
}

// fields returns the names of the top-level fields of a JSON body, nil if it has none or cannot be read twice.
func (b *body) fields(header http.Header) []string {
	contentType := header.Get("Content-Type")
	if b.get == nil || contentType != "" && !strings.Contains(strings.ToLower(contentType), "json") {
		return nil
	}
	content, err := b.get()
	if err != nil {
		return nil
	}
	defer content.Close()
	var object map[string]json.RawMessage
	if json.NewDecoder(content).Decode(&object) != nil {
		return nil
	}
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	return names
}
