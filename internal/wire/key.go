package wire

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"
)

// Key turns secrets into numbers that identify them in memory and in written state, and do not reveal them.
type Key struct {
	Salt [16]byte // not secret
	key  [sha256.Size]byte
}

// Secret returns a text that only the owner of a key knows. A nil Secret is an empty one. Secret is a function because
// fmt shows only the address of a function, whatever the verb and whatever value contains the function.
type Secret func() []byte

// NewSecret returns a secret that does not change.
func NewSecret(text []byte) Secret {
	text = slices.Clone(text)
	return func() []byte { return text }
}

// NewKey returns the key of a secret with a new salt.
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

// Sum returns a keyed hash of a text. The hash is cut to 64 bits, so that the hash of a longer text cannot be derived
// from it.
func (k *Key) Sum(text string) uint64 {
	var space [256]byte // large enough for a credential, so that nothing is allocated
	sum := sha256.Sum256(append(append(space[:0], k.key[:]...), text...))
	return binary.BigEndian.Uint64(sum[:])
}

// A clock may have been set unnoticed while no process ran, so a difference of clock times is trusted only to within
// clockStep. longest is enough, because the result is only compared with waits of a day at most.
const (
	clockStep = time.Hour
	longest   = 48 * time.Hour
)

// Elapsed returns how much time has passed at least and at most between two times of wall clocks. The result is right
// if the clocks were not set by more than an hour.
func Elapsed(from, to time.Time) (least, most time.Duration) {
	d := min(max(to.Sub(from), 0), longest)
	return max(d-clockStep, 0), d + clockStep
}
