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

// inspect calls judge in another goroutine, once the beginning of the body has arrived, with the code in the body and
// whether there is one. It does not delay the response. The reader of the response gets the inspected bytes, too. Close
// of the body waits up to briefWait for bytes that are about to arrive.
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

// inspectedBody is a body whose beginning inspect reads.
type inspectedBody struct {
	partlyRead
	reading *task[head]
}

func (b *inspectedBody) Close() error {
	b.reading.waitBriefly()
	return b.Closer.Close()
}

// codeIn returns the code in the JSON object at the beginning of a text. ok is false if there is none.
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
