package httpclient

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"slices"

	"github.com/ratelight/ratelight/httpclient/internal/message"
)

// addNonce adds a nonce to the message in the body, except in the cases in which Attempts.Nonce says that the body is
// sent unchanged.
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
	closeSoon(b.next) // from now on get returns the new text
	b.next, b.length, b.measured = nil, int64(len(text)), true
	b.get = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }
}

// nonceLength is the length, in characters, of the longest nonce that Discord allows (Discord's documentation).
const nonceLength = 25

// withNonce adds a nonce and enforce_nonce to a JSON object. It returns false if the text is not a JSON object, or if
// the object has a nonce or enforce_nonce already.
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
