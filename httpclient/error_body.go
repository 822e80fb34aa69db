package httpclient

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/ratelight/ratelight/httpclient/internal/message"
)

// maxExamined is how much of a body is looked at, in bytes.
const maxExamined = 4 << 10

// bodyOrigin is what the body of an error says of itself.
type bodyOrigin int

const (
	unread      bodyOrigin = iota // too little of it has come
	fromDiscord                   // it can be Discord's: a JSON object, or nothing
	foreign                       // a proxy's, say
)

// inspectError has a look at the body of an error while its reader reads it, so that a late one delays nobody, and calls report once: with
// the bodyOrigin and the code in the body, 0 if it has none. It does so at once if there is no body, when its beginning or all of it has
// been read, and at the latest when it is closed. One whose encoding is not known is not read.
func inspectError(response *http.Response, report func(v bodyOrigin, code int)) {
	if response.Body == nil || response.Body == http.NoBody || response.ContentLength == 0 {
		report(fromDiscord, 0)
		return
	}
	e, known := message.EncodingOf(response.Header)
	if !known {
		report(unread, 0)
		return
	}
	response.Body = &inspectedBody{body: response.Body, encoding: e, report: report}
}

// inspectedBody is a body that is looked at. It is read by one goroutine at a time, and may be closed by another one.
type inspectedBody struct {
	body     io.ReadCloser
	encoding message.Encoding

	mu      sync.Mutex
	reading bool
	head    []byte
	report  func(bodyOrigin, int) // nil once it has been called
}

func (e *inspectedBody) Read(p []byte) (int, error) {
	e.begin()
	n, err := e.body.Read(p)
	e.end(p[:n], err)
	return n, err
}

// Close closes the body. What nobody has read is looked at if it is there, or comes in a moment.
func (e *inspectedBody) Close() error {
	if e.begin() {
		giveUp := time.AfterFunc(briefWait, func() { e.body.Close() })
		head, err := io.ReadAll(io.LimitReader(e.body, maxExamined))
		if giveUp.Stop() {
			if err == nil {
				err = io.EOF
			}
			e.end(head, err)
		}
	}
	e.conclude(unread, 0)
	return e.body.Close()
}

// begin is called before the body is read. It reports whether nobody else reads it, and there is something to find out.
func (e *inspectedBody) begin() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	idle := !e.reading && e.report != nil
	e.reading = true
	return idle
}

// end takes in what was read.
func (e *inspectedBody) end(read []byte, err error) {
	e.mu.Lock()
	e.reading = false
	if e.report == nil {
		e.mu.Unlock()
		return
	}
	e.head = append(e.head, read[:min(len(read), maxExamined-len(e.head))]...)
	head := e.head
	e.mu.Unlock()
	full := len(head) == maxExamined
	if e.encoding != message.Plain && !full && err == nil { // it is decoded once
		return
	}
	text := e.encoding.Decode(head, maxExamined)
	code, whole := codeIn(text)
	switch {
	case whole, err == io.EOF && len(bytes.TrimSpace(head)) == 0:
		e.conclude(fromDiscord, code)
	case err == io.EOF || full:
		e.conclude(foreign, 0)
	}
}

// conclude calls report, unless it has been called.
func (e *inspectedBody) conclude(v bodyOrigin, code int) {
	e.mu.Lock()
	report := e.report
	e.report = nil
	e.mu.Unlock()
	if report != nil {
		report(v, code)
	}
}

// codeIn returns the code in the JSON object that a text begins with, 0 if it has none, and whether it begins with one.
func codeIn(text []byte) (code int, whole bool) {
	var object struct {
		Code json.RawMessage `json:"code"`
	}
	text = bytes.TrimSpace(text)
	if !bytes.HasPrefix(text, []byte("{")) || json.NewDecoder(bytes.NewReader(text)).Decode(&object) != nil {
		return 0, false
	}
	if n, ok := message.Number(object.Code); ok && n <= 1<<31 {
		code = int(n)
	}
	return code, true
}
