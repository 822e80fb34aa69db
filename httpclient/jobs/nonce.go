package jobs

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// nonceBytes are as many as fit into the 25 characters that a nonce may have (Discord's documentation).
const nonceBytes = 18

// Nonce returns a nonce of 24 characters that is made of the parts, such as the name of the job queue, the job's id, and a number if it
// sends several messages. The same parts make the same nonce, in every process.
func Nonce(parts ...string) string {
	h := sha256.New()
	var length [8]byte
	for _, part := range parts {
		binary.BigEndian.PutUint64(length[:], uint64(len(part))) // so that "a", "bc" differ from "ab", "c"
		h.Write(length[:])
		h.Write([]byte(part))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:nonceBytes])
}

// WithNonce returns a message with a nonce that Discord enforces: what is sent twice within a few minutes is created once, and answered alike. It is
// for messages to channels; webhooks and interactions have no such nonces. The message is anything that is encoded as a JSON object.
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
	object["nonce"], _ = json.Marshal(e.nonce) // a string always can be
	object["enforce_nonce"] = json.RawMessage("true")
	return json.Marshal(object)
}

const maxNonce = 25
