package wire

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"
)

// Key turns texts such as credentials into numbers. The numbers identify the texts in memory and in written state, but
// do not reveal them.
type Key struct {
	Salt [16]byte // not secret
	key  [sha256.Size]byte
}

// Secret is a function that returns a text which only the owner of a key knows. A nil Secret stands for an empty text.
// Secret is a function because fmt prints only the address of a function, with every verb and inside every other value.
type Secret func() []byte

// NewSecret returns a secret with a copy of the text.
func NewSecret(text []byte) Secret {
	text = slices.Clone(text)
	return func() []byte { return text }
}

// NewKey returns the key of a secret with a new, random salt.
func NewKey(secret Secret) *Key {
	var salt [16]byte
	rand.Read(salt[:]) // never fails
	return KeyWithSalt(secret, salt)
}

// KeyWithSalt returns the key of a secret and a salt.
func KeyWithSalt(secret Secret, salt [16]byte) *Key {
	text := salt[:]
	if secret != nil {
		text = append(text, secret()...)
	}
	return &Key{salt, sha256.Sum256(text)}
}

// Sum returns a keyed hash of a text. It returns only 64 bits of the hash. From so few bits, nobody can derive the hash
// of a longer text.
func (k *Key) Sum(text string) uint64 {
	var space [256]byte // large enough for a credential, so that nothing is allocated
	sum := sha256.Sum256(append(append(space[:0], k.key[:]...), text...))
	return binary.BigEndian.Uint64(sum[:])
}

// Somebody may have set the clock while no process ran. So a difference between two clock times may be wrong by up to
// clockStep. Longer differences than longest are cut, because the result is only compared with waits of a day at most.
const (
	clockStep = time.Hour
	longest   = 48 * time.Hour
)

// Elapsed returns the shortest time (least) and the longest time (most) that may have passed between two times of wall
// clocks, if the clocks were not set by more than an hour in between. Differences of more than 48 hours count as 48
// hours.
func Elapsed(from, to time.Time) (least, most time.Duration) {
	d := min(max(to.Sub(from), 0), longest)
	return max(d-clockStep, 0), d + clockStep
}
