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

// openLimit bounds the duration of Open. The context of Open may end it earlier.
const openLimit = 5 * time.Second

// Store keeps the shared state on a server. Pass it to buckets.WithShared. It is safe for concurrent use. Several
// managers may use one store; these managers then share their limits, too. Close the store after the managers.
type Store struct {
	*shared.Store
	client *later
}

// Open connects to a server, and checks that the server answers, accepts the user, runs scripts, and stores what they
// write. It returns within 5 seconds, or when the context ends if that is earlier. Once Open has returned, the context
// has no effect. A server that cannot be reached is an error, unless WithLateConnect is used. The error is an *Error,
// or wraps ErrURL, ErrApplication, the error of an option, or the cause of the context's cancellation.
//
// The URL is
//
//	redis://user:password@host:6379/0          one server; rediss:// with TLS; valkey:// and valkeys:// are synonyms
//	redis://host:6379?addr=host2:6379          a cluster: any of its nodes; one is enough while it is up
//	redis://host:26379?addr=host2:26379&master_set=mymaster
//	                                           a primary with Sentinels: the addresses are those of the Sentinels
//	unix://user:password@/path/to/redis.sock   a socket
//
// The other parameters are those of rueidis.ParseURL: db, dial_timeout, write_timeout, skip_verify, protocol (2 for
// RESP2), client_name.
func Open(ctx context.Context, url string, options ...Option) (*Store, error) {
	var s settings
	o, err := s.apply(url, options)
	if err != nil {
		return nil, err
	}
	if s.application == "" {
		return nil, fmt.Errorf("%w: it is required", ErrApplication)
	}
	l := newLater(func(ctx context.Context) (*Client, error) {
		c := newClient()
		return c, c.open(ctx, o, s.check)
	})
	store, err := shared.New(shared.OnScripts(l), s.shared...) // before connecting, because an option may be invalid
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	switch err := l.try(ctx); {
	case err == nil:
	case s.late && mayPass(err):
		l.repeat()
	default:
		l.Close()
		return nil, err
	}
	return &Store{Store: store, client: l}, nil
}

// Connect is Open for other stores that take a shared.Runner. It uses only the options WithTLS and WithClientOption,
// and ignores options about limits. It checks that the server answers and accepts the user, but does not check keys and
// scripts.
func Connect(ctx context.Context, url string, options ...Option) (*Client, error) {
	var s settings
	o, err := s.apply(url, options)
	if err != nil {
		return nil, err
	}
	c := newClient()
	if err := c.open(ctx, o, func(ctx context.Context, c *Client) error { return c.checkEngine(ctx) }); err != nil {
		return nil, err
	}
	return c, nil
}

// Close closes all connections, and waits until the store's goroutines have ended. Calls in progress end with an error.
// Close may be called twice.
func (s *Store) Close() { s.client.Close() }

func (s *settings) apply(url string, options []Option) (rueidis.ClientOption, error) {
	for _, option := range options {
		if option == nil {
			continue
		}
		if err := option(s); err != nil {
			return rueidis.ClientOption{}, err
		}
	}
	return s.clientOption(url)
}

// open connects the client and checks the server. It closes the client on an error.
func (c *Client) open(ctx context.Context, o rueidis.ClientOption, check func(context.Context, *Client) error) error {
	if ctx == nil {
		c.Close()
		return errors.New("redis: context is nil: pass context.Background() if there is none")
	}
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	err := c.connect(ctx, o)
	if err == nil {
		err = check(ctx, c)
	}
	if err != nil {
		c.Close()
	}
	if err != nil && ctx.Err() != nil {
		return openError(ctx, err)
	}
	return err
}

// connect makes the client. It cuts the connections when the context ends, because NewClient has no context.
func (c *Client) connect(ctx context.Context, o rueidis.ClientOption) error {
	c.connections.through(&o)
	stop := context.AfterFunc(ctx, c.connections.cut)
	inner, err := rueidis.NewClient(o)
	if err == nil {
		c.inner = inner
	}
	switch {
	case !stop() && err == nil:
		return ctx.Err()
	case err == nil:
		return nil
	case o.Sentinel.MasterSet != "":
		return sentinelError(err)
	case errors.Is(err, io.EOF):
		cause := fmt.Errorf("the server closed the connection, is the port a TLS port?: %w", err)
		return &Error{Problem: ErrUnreachable, Cause: cause}
	default:
		return explain(err)
	}
}

// openError returns the error of an open whose context has ended. The last error may say why open took so long.
func openError(ctx context.Context, last error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("redis: open: %w", context.Cause(ctx))
	}
	var e *Error
	if errors.As(last, &e) {
		return &Error{Problem: ErrUnreachable, Cause: fmt.Errorf("%w: %v", ctx.Err(), e.Cause)}
	}
	return &Error{Problem: ErrUnreachable, Cause: ctx.Err()}
}

// sentinelError does the same as the function explain, but for errors of Sentinels.
func sentinelError(err error) error {
	explained := explain(err)
	var e *Error
	if rueidis.IsRedisNil(err) || errors.As(explained, &e) && errors.Is(e, ErrRefused) {
		return &Error{Problem: ErrSentinel, Cause: err}
	}
	return explained
}
