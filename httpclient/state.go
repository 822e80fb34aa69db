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
	"github.com/ratelight/ratelight/routes"
)

// errUsed is returned by RestoreState when it is too late.
var errUsed = errors.New("transport has sent requests already: restore the state before the first request")

const (
	stateKind    = 'T'
	stateVersion = 1
)

// WithStateKey sets a secret that WriteState uses to hash credentials and tokens, see buckets.WithStateKey. The transport's own manager
// has it, too.
func WithStateKey(secret []byte) Option {
	kept := wire.NewSecret(secret)
	return func(s *settings) {
		s.stateKey = kept
		s.buckets = append(s.buckets, buckets.WithStateKey(secret))
	}
}

// WriteState writes all that the next transport needs to go on from here: which credentials do not work and which webhooks are gone, and
// the state of the transport's own manager, see buckets.RESTBucketManager.WriteState. A manager of WithManager is not part of it.
// RestoreState reads it. Package statefile keeps it in a file.
//
// Write it after Close or Shutdown, for the next transport to go on exactly there; and now and then before, also because only then the
// manager knows at Close that its state is wanted: a transport that is not closed may send more after it was written. The state contains no
// credential and no token, only keyed hashes, see WithStateKey. The errors are those of w, and buckets.ErrClosed.
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

// RestoreState goes on from a state of WriteState. Call it before the first request. The errors are those of r; buckets.ErrState if the
// state cannot be used; buckets.ErrClosed, and one for a transport that is in use. With an error nothing has changed.
func (t *Transport) RestoreState(r io.Reader) error {
	data, err := wire.ReadBlock(r, stateKind, stateVersion)
	if err != nil {
		return err
	}
	s, err := t.credentials.decode(data)
	if err != nil {
		return err
	}
	if t.credentials.used() {
		return errUsed
	}
	if s.owned && t.owned {
		if err := t.manager.RestoreState(r); err != nil {
			return err
		}
	}
	t.credentials.restore(s)
	return nil
}

// used reports that something is known already.
func (c *credentials) used() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known.Size() > 0 || len(c.stopped) > 0
}

// encode returns what is known against credentials. managed says that the state of a manager follows.
func (c *credentials) encode(managed bool) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, key := time.Now(), c.key.Load()
	b := append(wire.BeginBlock(stateKind, stateVersion), key.Salt[:]...)
	b = binary.BigEndian.AppendUint64(b, key.Sum(""))
	b = wire.AppendFlag(b, managed)
	b = wire.AppendTime(b, time.Duration(now.UnixNano()), time.Nanosecond)
	for k, s := range c.stopped {
		if rest := s.until.Sub(now); rest > 0 && k.evidence == confirmed { // what only a header says may be taken back
			b = wire.AppendFlag(b, true)
			b = k.credentialID.append(b)
			b = wire.AppendText(b, k.route.String())
			b = binary.AppendUvarint(b, k.major)
			b = binary.AppendUvarint(b, uint64(s.status))
			b = wire.AppendTime(b, rest, time.Nanosecond)
		}
	}
	b = wire.AppendFlag(b, false)
	for _, s := range c.known.All() {
		b = s.append(b, now)
	}
	for _, s := range c.restored {
		b = s.append(b, now)
	}
	return wire.EndBlock(wire.AppendFlag(b, false))
}

func (o *credentialID) append(b []byte) []byte {
	b = wire.AppendText(b, o.server)
	return binary.AppendUvarint(append(b, byte(o.kind)), o.hash)
}

// append appends what is known against an Authorization, if there is anything.
func (s *authorizationState) append(b []byte, now time.Time) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	worked := s.worked.Load()
	proven, refused := s.proof > worked, max(s.refused[0].number, s.refused[1].number) > worked
	if !proven && !refused {
		return b
	}
	b = s.credentialID.append(wire.AppendFlag(b, true))
	b = wire.AppendFlag(b, proven)
	b = wire.AppendTime(b, max(s.until.Sub(now), 0), time.Nanosecond)
	for _, r := range s.refused {
		text := ""
		if r.number > worked {
			text = r.route.String()
		}
		b = wire.AppendText(b, text)
	}
	return b
}

// credentialsState is what was read of a state.
type credentialsState struct {
	*wire.Reader
	key            *wire.Key
	owned          bool
	now            time.Time
	elapsed        time.Duration
	stopped        map[finding]stop
	authorizations map[credentialID]*authorizationState
}

func (c *credentials) decode(data []byte) (*credentialsState, error) {
	s := &credentialsState{
		Reader: wire.NewReader(data, wire.ErrDamaged), now: time.Now(),
		stopped: map[finding]stop{}, authorizations: map[credentialID]*authorizationState{},
	}
	var salt [16]byte
	copy(salt[:], s.Bytes(len(salt)))
	s.key = wire.KeyWithSalt(c.secret, salt)
	if check := s.Fixed(); s.Err == nil && check != s.key.Sum("") {
		return nil, fmt.Errorf("%w: it was written with another key", wire.ErrState)
	}
	s.owned = s.Flag()
	s.elapsed, _ = wire.Elapsed(time.Unix(0, int64(s.Time(time.Nanosecond))), s.now)
	for s.Flag() {
		k := finding{scope: scope{s.id(), s.route(), s.Number()}, evidence: confirmed}
		status, until := s.Int(599), s.until()
		if len(s.stopped) < maxStopped {
			s.stopped[k] = stop{status: status, until: until}
		}
	}
	for s.Flag() {
		a := &authorizationState{credentialID: s.id()}
		if s.Flag() {
			a.proof = 1
		}
		a.until = s.until()
		for i := range a.refused {
			if route := s.route(); !route.IsZero() {
				a.refused[i] = refusal{route, 1}
			}
		}
		a.sent.Store(1)
		a.doubtful.Store(true)
		if len(s.authorizations) < maxStopped {
			s.authorizations[a.credentialID] = a
		}
	}
	return s, s.Err
}

func (s *credentialsState) id() credentialID {
	return credentialID{server: s.Text(), kind: CredentialKind(s.Byte()), hash: s.Number()}
}

// route reads a route, the zero one for none, and for one that cannot be told by its name.
func (s *credentialsState) route() routes.Route {
	route, _ := routes.Parse(s.Text())
	return route
}

// until reads for how long something lasts. Nothing is remembered longer than a day, but what is remembered for ever.
func (s *credentialsState) until() time.Time {
	rest := s.Time(time.Nanosecond)
	if rest < 0 || rest > webhookLife {
		s.Fail()
	}
	return s.now.Add(rest - s.elapsed)
}

// restore takes in a state.
func (c *credentials) restore(s *credentialsState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.key.Store(s.key)
	c.stopped, c.restored = s.stopped, s.authorizations
	c.count.Store(int32(len(c.stopped)))
}
