package discordsim

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"
)

// SequenceHeader names the header with a request's number. Numbers begin with 1 and follow the order that the client
// intends. Tally.Inversions uses them.
const SequenceHeader = "X-Sequence"

// maxBody is how many bytes of a body hooks and sub-limits can see. The other bytes are read and dropped.
const maxBody = 1 << 20

// ServeHTTP handles a request with any method and path.
func (s *Server) ServeHTTP(writer http.ResponseWriter, r *http.Request) {
	j, err := s.enter()
	if err != nil {
		panic(http.ErrAbortHandler) // closes the connection without a log
	}
	defer s.leave()
	body, err := readBody(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	response, err := s.travel(r.Context(), j, s.newRequest(r, body))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	for name, values := range response.Header {
		writer.Header()[name] = values
	}
	if response.Body != nil {
		writer.Header().Set("Content-Length", strconv.Itoa(len(response.Body)))
	}
	writer.WriteHeader(response.Status)
	body, all := response.coming()
	if response.BodyDelay > 0 || !all {
		_ = http.NewResponseController(writer).Flush() // if the writer cannot flush, the headers just come later
		if s.wait(r.Context(), response.BodyDelay) != nil {
			panic(http.ErrAbortHandler)
		}
	}
	_, _ = writer.Write(body) // the client may have gone away
	if !all {
		_ = http.NewResponseController(writer).Flush()
		s.waitForEver(r.Context())
		panic(http.ErrAbortHandler)
	}
}

// RoundTripper returns a transport that calls the server without a connection. It costs far less time than HTTP does.
// Latency and cancellation work as with HTTP, and bodies must be read and closed. The transport accepts any host.
func (s *Server) RoundTripper() http.RoundTripper { return roundTripper{s} }

type roundTripper struct{ server *Server }

func (t roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	s, ctx := t.server, r.Context()
	j, err := s.enter()
	if err != nil {
		return nil, err
	}
	defer s.leave()
	body, err := t.upload(ctx, r.Body)
	if err != nil {
		return nil, err
	}
	response, err := s.travel(ctx, j, s.newRequest(r, body))
	if err != nil {
		return nil, err
	}
	return t.response(r, response), nil
}

// upload reads a request's body. When the context ends, reading also ends, as if the connection had been closed.
func (t roundTripper) upload(ctx context.Context, body io.ReadCloser) ([]byte, error) {
	if body == nil || body == http.NoBody {
		return nil, ctx.Err()
	}
	stop := context.AfterFunc(ctx, func() { _ = body.Close() })
	defer stop()
	content, err := readBody(body)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return content, err
}

func (t roundTripper) response(r *http.Request, response *Response) *http.Response {
	answer := &http.Response{
		Status:     strconv.Itoa(response.Status) + " " + http.StatusText(response.Status),
		StatusCode: response.Status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        response.Header,
		ContentLength: int64(len(response.Body)),
		Body:          http.NoBody,
		Request:       r,
	}
	switch {
	case r.Method == http.MethodHead || len(response.Body) == 0:
	case response.BodyDelay > 0 || response.Stall != StallNone:
		ctx, cancel := context.WithCancel(r.Context())
		body, all := response.coming()
		answer.Body = &slowBody{
			server: t.server, ctx: ctx, cancel: cancel,
			ready: t.server.now().Add(response.BodyDelay), content: bytes.NewReader(body), all: all,
		}
	default:
		answer.Body = io.NopCloser(bytes.NewReader(response.Body))
	}
	return answer
}

// slowBody is a body that can be read from the time ready on. If all is false, it never ends. Close ends a Read that is
// waiting.
type slowBody struct {
	server  *Server
	ctx     context.Context
	cancel  context.CancelFunc
	ready   time.Time
	content *bytes.Reader
	all     bool // false: after content, a Read waits until the client closes the body
}

func (b *slowBody) Read(p []byte) (int, error) {
	if err := b.server.wait(b.ctx, b.ready.Sub(b.server.now())); err != nil {
		return 0, err
	}
	if b.content.Len() == 0 && !b.all {
		return 0, b.server.waitForEver(b.ctx)
	}
	return b.content.Read(p)
}

func (b *slowBody) Close() error {
	b.cancel()
	return nil
}

func readBody(body io.Reader) ([]byte, error) {
	if body == nil {
		return nil, nil
	}
	content, err := io.ReadAll(io.LimitReader(body, maxBody))
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, body)
	return content, err
}

// newRequest returns what the world sees of an HTTP request.
func (s *Server) newRequest(r *http.Request, body []byte) Request {
	var value any
	if s.config.Enter != nil {
		value = s.config.Enter(r, body)
	}
	sequence, _ := strconv.ParseInt(r.Header.Get(SequenceHeader), 10, 64) // garbage counts as not numbered
	return Request{
		Method:        r.Method,
		Path:          r.URL.EscapedPath(),
		Authorization: r.Header.Get("Authorization"),
		Fields:        fields(body),
		Sequence:      sequence,
		Header:        r.Header,
		Body:          body,
		Value:         value,
	}
}

// fields returns the names of the top-level members of a JSON object. It returns nil if body is not a JSON object.
func fields(body []byte) []string {
	body = bytes.TrimLeft(body, " \t\r\n")
	if len(body) == 0 || body[0] != '{' {
		return nil
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(body, &object) != nil {
		return nil
	}
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	return names
}
