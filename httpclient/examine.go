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

// verdict is what the body of an error says of itself.
type verdict int

const (
	unread  verdict = iota // too little of it has come
	ours                   // it can be Discord's: a JSON object, or nothing
	foreign                // a proxy's, say
)

// examine has a look at the body of an error while its reader reads it, so that a late one delays nobody, and calls judge once: with
// the verdict and the code in the body, 0 if it has none. It does so at once if there is no body, when its beginning or all of it has
// been read, and at the latest when it is closed. One whose encoding is not known is not read.
func examine(response *http.Response, judge func(v verdict, code int)) {
	if response.Body == nil || response.Body == http.NoBody || response.ContentLength == 0 {
		judge(ours, 0)
		return
	}
	e, known := message.EncodingOf(response.Header)
	if !known {
		judge(unread, 0)
		return
	}
	response.Body = &examined{body: response.Body, encoding: e, judge: judge}
}

// examined is a body that is looked at. It is read by one goroutine at a time, and may be closed by another one.
type examined struct {
	body     io.ReadCloser
	encoding message.Encoding

	mu      sync.Mutex
	reading bool
	head    []byte
	judge   func(verdict, int) // nil once it has been called
}

func (e *examined) Read(p []byte) (int, error) {
	e.begin()
	n, err := e.body.Read(p)
	e.end(p[:n], err)
	return n, err
}

// Close closes the body. What nobody has read is looked at if it is there, or comes in a moment.
func (e *examined) Close() error {
	if e.begin() {
		giveUp := time.AfterFunc(moment, func() { e.body.Close() })
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
func (e *examined) begin() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	idle := !e.reading && e.judge != nil
	e.reading = true
	return idle
}

// end takes in what was read.
func (e *examined) end(read []byte, err error) {
	e.mu.Lock()
	e.reading = false
	if e.judge == nil {
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
		e.conclude(ours, code)
	case err == io.EOF || full:
		e.conclude(foreign, 0)
	case err != nil:
		e.conclude(unread, 0)
	}
}

// conclude calls judge, unless it has been called.
func (e *examined) conclude(v verdict, code int) {
	e.mu.Lock()
	judge := e.judge
	e.judge = nil
	e.mu.Unlock()
	if judge != nil {
		judge(v, code)
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
