package httpclient

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync"

	"github.com/ratelight/ratelight/httpclient/internal/message"
)

// maxExamined is how much of the body of an error is looked at, in bytes.
const maxExamined = 4 << 10

// inspect calls judge with the code in the body of an error, and whether there is one, as soon as its beginning has
// come. The response waits for nothing. Its reader gets what was read; closing waits a moment for what may be about to
// come.
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

// inspectedBody is a body whose beginning is read by somebody else.
type inspectedBody struct {
	partlyRead
	reading *task[head]
}

func (b *inspectedBody) Close() error {
	b.reading.waitBriefly()
	return b.Closer.Close()
}

// codeIn returns the code in the JSON object that a text begins with, and whether there is one.
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
