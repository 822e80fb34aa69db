package httpclient

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync"

	"github.com/ratelight/ratelight/httpclient/internal/message"
)

// maxExamined bounds how many bytes of an error's body are inspected.
const maxExamined = 4 << 10

// inspect reads the beginning of the body in another goroutine, which then calls judge with the error code in the body.
// If the body has no code, judge gets ok = false. inspect does not delay the response. The reader of the response also
// gets the inspected bytes. Closing the body waits for the inspected bytes, but for briefWait at most.
func inspect(response *http.Response, judge func(code int, ok bool)) {
	body := response.Body
	encoding, known := message.EncodingOf(response.Header)
	if body == nil || body == http.NoBody || !known {
		return
	}
	reading := start(func() (h head) {
		h.text, h.err = io.ReadAll(io.LimitReader(body, maxExamined))
		judge(codeIn(encoding.Decode(h.text, maxExamined)))
		return h
	})
	response.Body = &inspectedBody{partlyRead{body, sync.OnceValue(func() io.Reader {
		return io.MultiReader(bytes.NewReader(reading.get().text), body)
	})}, reading}
}

// inspectedBody is a body whose beginning is read by the function inspect.
type inspectedBody struct {
	partlyRead
	reading *task[head]
}

func (b *inspectedBody) Close() error {
	b.reading.waitBriefly()
	return b.Closer.Close()
}

// codeIn returns the code in the JSON object with which a text begins. ok is false if there is no such object or code.
func codeIn(text []byte) (code int, ok bool) {
	var object struct {
		Code json.RawMessage `json:"code"`
	}
	text = bytes.TrimSpace(text)
	if !bytes.HasPrefix(text, []byte("{")) || json.NewDecoder(bytes.NewReader(text)).Decode(&object) != nil {
		return 0, false
	}
	n, ok := message.Number(object.Code)
	return int(min(n, 1<<31)), ok
}
