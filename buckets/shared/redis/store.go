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

// openLimit bounds the duration of Open. Open returns earlier if its context ends earlier.
const openLimit = 5 * time.Second

// Store keeps the shared state on a server. Pass it to buckets.WithShared. A Store is safe for concurrent use. Several
// managers of a process may use one store; then these managers also share their limits with each other. Close the store
// after the managers.
type Store struct {
	*shared.Store
	client *later
}

// Open connects to a server, and checks that the server answers, accepts the user, runs scripts, and stores what the
// scripts write. It returns within 5 seconds, or earlier if the context ends. After Open has returned, the context has
// no effect. If the server cannot be reached, Open returns an error, unless WithLateConnect is used. The error is an
// *Error, or it wraps ErrURL, ErrApplication, the error of an option, or the cause of the context's cancellation.
//
// The URL is
//
//	redis://user:password@host:6379/0          one server; rediss:// with TLS; valkey:// and valkeys:// are synonyms
//	redis://host:6379?addr=host2:6379          a cluster: any of its nodes; one is enough while it is up
//	redis://host:26379?addr=host2:26379&master_set=mymaster
//	                                           a primary with Sentinels: the addresses are those of the Sentinels
//	unix://user:password@/path/to/redis.sock   a socket
//
// Other parameters of the URL have the same meaning as in rueidis.ParseURL: db, dial_timeout, write_timeout,
// skip_verify, protocol (2 for RESP2), client_name.
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
	store, err := shared.New(shared.OnScripts(l), s.shared...) // before connecting, to detect invalid options first
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

// Connect connects to a server as Open does, for other stores that need a shared.Runner. It uses only the options
// WithTLS and WithClientOption, and ignores the options about limits. It checks that the server answers and that the
// server accepts the user. It checks neither keys nor scripts.
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

// Close closes all connections, and waits until the store's goroutines have ended. Calls in progress fail with an
// error. Close may be called more than once.
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

// open connects the client and checks the server. If it returns an error, it has closed the client.
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

// connect makes the inner client. If the context ends, connect cuts the connections, because rueidis.NewClient takes no
// context.
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

// openError returns the error of open after its context has ended. last is the latest error, which may say why open
// took so long.
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

// sentinelError does what the function explain does, for errors of Sentinels.
func sentinelError(err error) error {
	explained := explain(err)
	var e *Error
	if rueidis.IsRedisNil(err) || errors.As(explained, &e) && errors.Is(e, ErrRefused) {
		return &Error{Problem: ErrSentinel, Cause: err}
	}
	return explained
}
