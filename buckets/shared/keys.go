package shared

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"

	"github.com/ratelight/ratelight/buckets"
)

// protocol begins all keys. It is another one in each version of the scripts and of what they keep, so that processes of different
// versions never read each other's keys. Package redis has it, too.
const protocol = "rl2:"

// keys builds the names of what is kept on the server. All of an application are in one slot of a cluster, because the braces
// make the application's name the only part that counts for it.
type keys struct {
	prefix string
	secret []byte
}

func newKeys(application string) keys {
	return keys{prefix: protocol + "{" + application + "}:", secret: []byte("ratelight:" + application)}
}

// name returns a key of a kind, which is a letter or two.
func (k keys) name(kind, of string) string { return k.prefix + kind + ":" + of }

// sessions is the sorted set of sessions that are alive, by when they are not any more.
func (k keys) sessions() string { return k.prefix + "s" }

// wants is the set of buckets that are lent and wanted back, each behind its holder, who may not have heard the message.
func (k keys) wants() string { return k.prefix + "w" }

// era is the number of the era.
func (k keys) era() string { return k.prefix + "e" }

// invalid is where invalid responses are counted: those of an address if it is known, whatever the application, else those of the application.
func (k keys) invalid(address string) string {
	if address == "" {
		return k.prefix + "i"
	}
	return protocol + "ip:{" + address + "}"
}

// channel is where a session listens.
func (k keys) channel(session string) string { return k.name("o", session) }

// bucket returns what names a bucket in keys.
func (k keys) bucket(key buckets.SharedKey) string {
	return key.Credential + "/" + key.Hash + "/" + k.major(key.Major)
}

// major returns a major parameter in a form that contains no token: digits stay as they are, with a hash behind them or not, so that
// operators can read them.
func (k keys) major(parameter string) string {
	for i := range len(parameter) {
		if c := parameter[i]; (c < '0' || c > ':') && (c < 'a' || c > 'f') {
			return "x" + k.hidden(parameter)
		}
	}
	return parameter
}

// hidden returns what stands for a secret in all processes of the application, and does not give it away: 16 hexadecimal digits,
// or nothing for nothing.
func (k keys) hidden(secret string) string {
	if secret == "" {
		return ""
	}
	h := hmac.New(sha256.New, k.secret)
	h.Write([]byte(secret))
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// newSessionID returns a name that no other session has.
func newSessionID() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
