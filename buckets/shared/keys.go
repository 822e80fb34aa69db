package shared

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
)

// protocol is the prefix of all keys. It changes whenever the scripts or the stored values become incompatible, so that
// processes of different versions never read each other's keys. Package redis has a copy of this constant.
const protocol = "rl2:"

// keys builds the names of keys. A cluster chooses the slot of a key only by the text in braces, so all keys of an
// application are in one slot.
type keys struct {
	prefix string
	secret []byte
}

func newKeys(application string) keys {
	return keys{prefix: protocol + "{" + application + "}:", secret: []byte("ratelight:" + application)}
}

// name returns a key. kind is one letter or two.
func (k keys) name(kind, of string) string { return k.prefix + kind + ":" + of }

// life returns the key that exists as long as a session counts as alive.
func (k keys) life(session string) string { return k.name("p", session) }

// wants returns the key under which other sessions ask for loans of a session, in case that session misses their
// messages.
func (k keys) wants(session string) string { return k.name("w", session) }

// era returns the key of the number of the era.
func (k keys) era() string { return k.prefix + "e" }

// invalid returns the key for the counts of invalid responses: that of the address if address is not empty, otherwise
// that of the application.
func (k keys) invalid(address string) string {
	if address == "" {
		return k.prefix + "i"
	}
	return protocol + "ip:{" + address + "}"
}

func (k keys) channel(session string) string { return k.name("o", session) }

// bucket returns the part of a key that names a bucket.
func (k keys) bucket(key Key) string {
	return key.Credential + "/" + key.Hash + "/" + k.major(key.Major)
}

// major returns a major parameter that contains no token. A parameter that consists only of ids and hashes does not
// change, so operators can read the ids. Any other parameter is replaced by a hash.
func (k keys) major(parameter string) string {
	for i := range len(parameter) {
		if c := parameter[i]; (c < '0' || c > ':') && (c < 'a' || c > 'f') {
			return "x" + k.hidden(parameter)
		}
	}
	return parameter
}

// hidden returns a keyed hash of a secret, the same in all processes of the application: 16 hexadecimal digits, or ""
// for "".
func (k keys) hidden(secret string) string {
	if secret == "" {
		return ""
	}
	h := hmac.New(sha256.New, k.secret)
	h.Write([]byte(secret))
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// newSessionID returns a random name for a session: 16 hexadecimal digits.
func newSessionID() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
