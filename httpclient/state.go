package httpclient

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/wire"
)

// errUsed is returned by RestoreState if the transport already knows credentials, for example from responses.
var errUsed = errors.New("transport has sent requests already: restore the state before the first request")

const (
	stateKind    = 'T'
	stateVersion = 2
)

// WithStateKey sets a secret with which WriteState hashes credentials and tokens, see buckets.WithStateKey. The secret
// is used for the credentials that the transport itself remembers, and for the state of the transport's own manager. A
// secret of buckets.WithStateKey is used only for the state of the manager.
func WithStateKey(secret []byte) Option {
	kept := wire.NewSecret(secret)
	return func(s *settings) {
		s.stateKey = kept
		s.buckets = append(s.buckets, buckets.WithStateKey(secret))
	}
}

// WriteState writes a state with which another transport can continue, in this process or in another one. The state
// includes that of the transport's own manager, see buckets.RESTBucketManager.WriteState, but not that of a manager of
// WithLimiter. It says which credentials have worked within the last week, so that these credentials keep their own
// shares of the budget of invalid requests. It does not say which credentials were refused. RestoreState reads the
// state. Package statefile keeps the state in a file.
//
// Write the state after Close or Shutdown, when no more requests are sent. Also write it at intervals before Close, for
// two reasons: Close keeps the state of the manager only if the state was written or restored before, and if a process
// ends without Close, only the state that was written last remains, without the requests that were sent after it was
// written. The state contains no credential and no token, only keyed hashes, see WithStateKey. The errors are those of
// w, and buckets.ErrClosed.
func (t *Transport) WriteState(w io.Writer) error {
	b := bytes.NewBuffer(t.credentials.encode(t.owned))
	if t.owned {
		if err := t.manager.WriteState(b); err != nil {
			return err
		}
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("writing the state: %w", err)
	}
	return nil
}

// RestoreState reads a state that WriteState wrote. Call it before the first request. The errors are those of r,
// buckets.ErrState if the state cannot be used, buckets.ErrClosed, and an error for a transport that is already in use.
// After an error, the transport is unchanged.
func (t *Transport) RestoreState(r io.Reader) error {
	data, err := wire.ReadBlock(r, stateKind, stateVersion)
	if err != nil {
		return err
	}
	s, err := t.credentials.decode(data)
	switch {
	case err != nil:
		return err
	case t.credentials.used():
		return errUsed
	case s.managed && t.owned:
		if err := t.manager.RestoreState(r); err != nil {
			return err
		}
	}
	t.credentials.restore(s)
	return nil
}

func (c *credentials) used() bool { return c.known.Size() > 0 }

// encode encodes which credentials have worked, and when. managed says whether the state of a manager follows.
func (c *credentials) encode(managed bool) []byte {
	key := c.key.Load()
	b := append(wire.BeginBlock(stateKind, stateVersion), key.Salt[:]...)
	b = binary.BigEndian.AppendUint64(b, key.Sum(""))
	b = wire.AppendFlag(b, managed)
	for id, s := range c.known.All() {
		if at := s.accepted.Load(); at != int64(never) {
			b = binary.BigEndian.AppendUint64(append(wire.AppendFlag(b, true), byte(id.kind)), id.hash)
			b = binary.AppendUvarint(b, uint64(max(c.epoch.Add(time.Duration(at)).Unix(), 0)))
		}
	}
	return wire.EndBlock(wire.AppendFlag(b, false))
}

// credentialsState is a decoded state of credentials.
type credentialsState struct {
	key      *wire.Key
	managed  bool
	accepted map[credentialID]time.Duration
}

func (c *credentials) decode(data []byte) (*credentialsState, error) {
	r := wire.NewReader(data, wire.ErrDamaged)
	var salt [16]byte
	copy(salt[:], r.Bytes(len(salt)))
	s := &credentialsState{key: wire.KeyWithSalt(c.secret, salt), accepted: make(map[credentialID]time.Duration)}
	if check := r.Fixed(); r.Err == nil && check != s.key.Sum("") {
		return nil, fmt.Errorf("%w: it was written with another key", wire.ErrState)
	}
	s.managed = r.Flag()
	for r.Flag() && len(s.accepted) < maxCredentials {
		id := credentialID{CredentialKind(r.Byte()), r.Fixed()}
		age := time.Duration(max(c.epoch.Unix()-int64(min(r.Number(), 1<<40)), 0)) // seconds; the clock may have gone back
		if age < provenFor/time.Second {
			s.accepted[id] = -age * time.Second
		}
	}
	return s, r.Err
}

func (c *credentials) restore(s *credentialsState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.key.Store(s.key)
	for id, at := range s.accepted {
		c.add(id, at)
	}
}
