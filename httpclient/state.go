package httpclient

import (
	"bytes"
	"fmt"
	"io"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/wire"
)

const (
	stateKind    = 'T'
	stateVersion = 2
)

// WithStateKey sets a secret that WriteState uses to hash credentials and tokens, see buckets.WithStateKey. The
// transport's own manager has it, too.
func WithStateKey(secret []byte) Option {
	return func(s *settings) { s.buckets = append(s.buckets, buckets.WithStateKey(secret)) }
}

// WriteState writes all that the next transport needs to go on from here: the state of the transport's own manager, see
// buckets.RESTBucketManager.WriteState. A manager of WithManager is not part of it, and neither are credentials that
// Discord has refused. RestoreState reads it. Package statefile keeps it in a file.
//
// Write it after Close or Shutdown, for the next transport to go on exactly there; and now and then before, also
// because only then the manager knows at Close that its state is wanted: a transport that is not closed may send more
// after it was written. The state contains no credential and no token, only keyed hashes, see WithStateKey. The errors
// are those of w, and buckets.ErrClosed.
func (t *Transport) WriteState(w io.Writer) error {
	b := bytes.NewBuffer(wire.EndBlock(wire.AppendFlag(wire.BeginBlock(stateKind, stateVersion), t.owned)))
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

// RestoreState goes on from a state of WriteState. Call it before the first request. The errors are those of r;
// buckets.ErrState if the state cannot be used; buckets.ErrClosed, and one for a transport that is in use. With an
// error nothing has changed.
func (t *Transport) RestoreState(r io.Reader) error {
	data, err := wire.ReadBlock(r, stateKind, stateVersion)
	if err != nil {
		return err
	}
	reader := wire.NewReader(data, wire.ErrDamaged)
	managed := reader.Flag()
	switch {
	case reader.Err != nil:
		return reader.Err
	case managed && t.owned:
		return t.manager.RestoreState(r)
	}
	return nil
}
