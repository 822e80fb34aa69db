package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redis/rueidis"

	"github.com/ratelight/ratelight/buckets/shared"
)

// openLimit is how long Open tries, unless its context ends before.
const openLimit = 5 * time.Second

// Store keeps the shared state in an engine. Give it to buckets.WithShared. It is safe for concurrent use, also by several
// managers, whose limits are then shared too. Close it after them.
type Store struct {
	*shared.Store
	runner *runner
}

// Open connects to an engine and checks what can be known beforehand: that it answers, lets us in, runs scripts, lets us write, and
// keeps what we write. It returns within 5 seconds, or when the context ends if that is earlier; after that the context has
// no effect. The error is an *Error, or one that wraps ErrURL, ErrApplication or what an option is wrong with.
//
// The URL is
//
//	redis://user:password@host:6379/0          one engine; rediss:// with TLS, and valkey:// and valkeys:// are the same
//	redis://host:6379?addr=host2:6379          a cluster: any of its nodes, one is enough while that one is up
//	redis://host:26379?addr=host2:26379&master_set=mymaster
//	                                           a primary that Sentinels watch: the addresses are those of the Sentinels
//	unix://user:password@/path/to/redis.sock   a socket
//
// The other parameters are those of rueidis.ParseURL: db, dial_timeout, write_timeout, skip_verify, protocol (2 for RESP2), client_name.
func Open(ctx context.Context, url string, options ...Option) (*Store, error) {
	var s settings
	for _, option := range options {
		if err := option(&s); err != nil {
			return nil, err
		}
	}
	if s.application == "" {
		return nil, fmt.Errorf("%w: it is required", ErrApplication)
	}
	o, err := s.clientOption(url)
	if err != nil {
		return nil, err
	}
	r := newRunner()
	store, err := shared.New(r, s.shared...) // before any connection: options can be wrong
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	if err := r.open(ctx, o); err != nil {
		return nil, err
	}
	if err := s.check(ctx, r); err != nil {
		r.close()
		return nil, err
	}
	return &Store{Store: store, runner: r}, nil
}

// Close closes all connections, and waits until nothing of the store runs any more. Calls that are under way end with an error. It may be
// called twice.
func (s *Store) Close() { s.runner.close() }

// open connects the client. On an error nothing is left.
func (r *runner) open(ctx context.Context, o rueidis.ClientOption) error {
	r.connections.through(&o)
	stop := context.AfterFunc(ctx, r.connections.cut)
	client, err := rueidis.NewClient(o)
	if err == nil {
		r.client = client
	}
	if !stop() {
		r.close()
		return openError(ctx, err)
	}
	if err != nil {
		r.close()
		if o.Sentinel.MasterSet != "" {
			return sentinelError(err)
		}
		if errors.Is(err, io.EOF) {
			return &Error{Problem: ErrUnreachable, Cause: fmt.Errorf("it hangs up, is the port one for TLS?: %w", err)}
		}
		return explain(err)
	}
	return nil
}

// openError is the error when the context of Open has ended.
func openError(ctx context.Context, cause error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("redis: open: %w", context.Cause(ctx))
	}
	e := &Error{Problem: ErrUnreachable, Cause: ctx.Err()}
	if cause != nil {
		e.Cause = fmt.Errorf("%w: %v", ctx.Err(), cause)
	}
	return e
}

// sentinelError is explain for what happens while Sentinels are asked.
func sentinelError(err error) error {
	explained := explain(err)
	var e *Error
	if rueidis.IsRedisNil(err) || errors.As(explained, &e) && errors.Is(e, ErrRefused) {
		return &Error{Problem: ErrSentinel, Cause: err}
	}
	return explained
}
