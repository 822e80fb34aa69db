package jobs

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// nonceBytes is the largest number of bytes whose Base64 encoding fits into the 25 characters that Discord's
// documentation allows for a nonce.
const nonceBytes = 18

// Nonce returns a nonce of 24 characters, which is a hash of the parts. Parts are, for example, the name of the job
// queue, the job's id, and a number if the job sends several messages. The same parts give the same nonce in every
// process.
func Nonce(parts ...string) string {
	h := sha256.New()
	var length [8]byte
	for _, part := range parts {
		binary.BigEndian.PutUint64(length[:], uint64(len(part))) // otherwise "a", "bc" would give the same hash as "ab", "c"
		h.Write(length[:])
		h.Write([]byte(part))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:nonceBytes])
}

// WithNonce returns a message with a nonce that Discord enforces: if the message is sent twice within a few minutes,
// Discord creates it only once, and gives both requests the same response. Only messages to channels have such nonces;
// messages of webhooks and interactions do not. The message may be any value that is encoded as a JSON object.
//
//	client.DoJSON(ctx, "POST", "/channels/1/messages", jobs.WithNonce(message, nonce), nil)
func WithNonce(message any, nonce string) json.Marshaler { return enforced{message, nonce} }

type enforced struct {
	message any
	nonce   string
}

var errNotAnObject = errors.New("jobs: WithNonce: the message is not a JSON object")

func (e enforced) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(e.message)
	if err != nil {
		return nil, err
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil || object == nil {
		return nil, errNotAnObject
	}
	if len(e.nonce) == 0 || len(e.nonce) > maxNonce {
		return nil, fmt.Errorf("jobs: WithNonce: a nonce of %d characters: want 1 to %d", len(e.nonce), maxNonce)
	}
	object["nonce"], _ = json.Marshal(e.nonce) // strings can always be encoded
	object["enforce_nonce"] = json.RawMessage("true")
	return json.Marshal(object)
}

const maxNonce = 25
