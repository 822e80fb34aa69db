package redis

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/redis/rueidis"

	"github.com/ratelight/ratelight/buckets/shared"
)

// Option configures Open. A nil Option is ignored.
type Option func(*settings) error

type settings struct {
	application string
	address     string
	shared      []shared.Option
	tls         *tls.Config
	change      []func(*rueidis.ClientOption)
	eviction    bool
	late        bool
	logger      *slog.Logger
	quiet       bool
}

// WithApplication sets the name of the bot to which the processes belong. It is required. Processes with the same
// application name and the same server share their limits. Several bots can use one server, because all keys contain
// the name.
//
// The id of the Discord application is a good name. The name must not be a token, and must not contain characters that
// would make keys or patterns ambiguous: spaces, control characters, quotes, and any of { } * ? [ ] \.
func WithApplication(name string) Option {
	return func(s *settings) error {
		if err := checkApplication(name); err != nil {
			return err
		}
		s.application = name
		s.shared = append(s.shared, shared.WithApplication(name))
		return nil
	}
}

// tokenLike matches texts that contain a bot token of Discord: id, time and signature in base64, separated by dots.
var tokenLike = regexp.MustCompile(`[\w-]{18,}\.[\w-]{4,}\.[\w-]{20,}`)

const maxApplication = 64

// checkApplication rejects names that cannot be part of keys. Its errors do not contain the name, which may be a
// secret.
func checkApplication(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrApplication)
	case tokenLike.MatchString(name):
		return fmt.Errorf("%w: it looks like a token, and keys must not contain tokens", ErrApplication)
	case len(name) > maxApplication:
		return fmt.Errorf("%w: it has more than %d bytes", ErrApplication, maxApplication)
	}
	for _, r := range name {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) || strings.ContainsRune(`{}*?[]\"'`, r) {
			return fmt.Errorf("%w: it contains %q, which is not allowed", ErrApplication, r)
		}
	}
	return nil
}

// WithOutage sets what happens to requests while the server cannot be reached; see shared.Outage. The default is
// shared.OutageWait.
func WithOutage(policy shared.Outage) Option {
	return func(s *settings) error { return s.pass(shared.WithOutage(policy)) }
}

// WithAddress sets a name for the IP address from which this process sends. Processes with the same address name count
// invalid responses together. Without this option, all processes of an application count them together. See
// shared.WithAddress.
func WithAddress(address string) Option {
	return func(s *settings) error {
		s.address = address
		return s.pass(shared.WithAddress(address))
	}
}

// WithLease sets how long a request may take. It should be a little more than the timeout of the HTTP client. See
// shared.WithLease.
func WithLease(d time.Duration) Option {
	return func(s *settings) error { return s.pass(shared.WithLease(d)) }
}

// WithCallTimeout sets how long one call to the server may take. If the call needs a new connection, this includes the
// time to connect: two round trips, or four with TLS. See shared.WithCallTimeout.
func WithCallTimeout(d time.Duration) Option {
	return func(s *settings) error { return s.pass(shared.WithCallTimeout(d)) }
}

func (s *settings) pass(o shared.Option) error {
	s.shared = append(s.shared, o)
	return nil
}

// WithTLS turns on TLS with the given configuration, whatever the scheme of the URL. It also applies to Sentinels. If
// the configuration has no ServerName, the certificates of all servers are checked against the first host of the URL.
// Nil is an error; pass &tls.Config{} for the defaults.
func WithTLS(config *tls.Config) Option {
	return func(s *settings) error {
		if config == nil {
			return errors.New("redis: the configuration of WithTLS is nil: pass &tls.Config{} for the defaults")
		}
		s.tls = config
		return nil
	}
}

// WithEviction makes Open accept a server whose maxmemory-policy may evict any key. If the server evicts keys of
// Ratelight, limits are lost. The processes notice the loss and report again what they know, but a few requests may get
// a 429.
func WithEviction() Option {
	return func(s *settings) error {
		s.eviction = true
		return nil
	}
}

// WithLateConnect lets Open succeed if the server does not answer, is loading its data, or is a cluster that is down.
// The store then tries again in the background, with pauses of 1.5 s at most, and makes all checks when the server is
// available. Until the server is available, the policy of WithOutage applies, and Store.Outage and the log say what is
// wrong. A process that starts without the server does not know of other processes, so under OutageShare it uses the
// whole of every limit.
//
// Open still fails with errors that do not disappear by themselves, such as a wrong password. If such an error occurs
// in a later attempt, calls fail with this error until an operator has removed its cause.
func WithLateConnect() Option {
	return func(s *settings) error {
		s.late = true
		return nil
	}
}

// WithLogger sends warnings about the server to logger instead of slog.Default(), including the warnings of
// shared.WithLogger. Nil turns the warnings off.
func WithLogger(logger *slog.Logger) Option {
	return func(s *settings) error {
		s.logger, s.quiet = logger, logger == nil
		return s.pass(shared.WithLogger(logger))
	}
}

// WithClientOption lets change modify the options of the client, for example to rotate passwords, to use a dial
// function, or to set a password for the Sentinels. The function change is called after the URL and the other options
// have been applied. Then Open sets the options that scripts rely on. Nil is ignored.
func WithClientOption(change func(*rueidis.ClientOption)) Option {
	return func(s *settings) error {
		if change != nil {
			s.change = append(s.change, change)
		}
		return nil
	}
}

func (s *settings) log() *slog.Logger {
	switch {
	case s.quiet:
		return slog.New(slog.DiscardHandler)
	case s.logger == nil:
		return slog.Default()
	default:
		return s.logger
	}
}
