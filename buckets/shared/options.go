package shared

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

type options struct {
	application string
	address     string
	outage      Outage
	callTimeout time.Duration
	lease       time.Duration
	trip        time.Duration
	logger      *slog.Logger // nil: slog.Default()
}

// Option changes how a Store works.
type Option func(*options) error

// WithApplication sets the name of the bot. Processes with the same application name and the same server share their
// limits. The name must not be empty or contain braces. It must not be a token, because all keys contain it. The
// default is "default".
func WithApplication(name string) Option {
	return func(o *options) error {
		if name == "" || strings.ContainsAny(name, "{}") {
			return errors.New("shared: the application's name is empty or contains braces")
		}
		o.application = name
		return nil
	}
}

// WithAddress sets a name for the IP address from which the process sends; any name that no other address has will do.
// Processes with the same address name count invalid requests together, even if they have different applications,
// because Discord counts them by IP address. Without this option, all processes of an application count together.
func WithAddress(name string) Option {
	return func(o *options) error {
		if name == "" || strings.ContainsAny(name, "{}") {
			return errors.New("shared: the name of the address is empty or contains braces")
		}
		o.address = name
		return nil
	}
}

// WithOutage sets what happens to requests while the server cannot be reached. The default is OutageWait.
func WithOutage(policy Outage) Option {
	return func(o *options) error {
		if policy > OutageFull {
			return fmt.Errorf("shared: there is no outage policy %d", policy)
		}
		o.outage = policy
		return nil
	}
}

// WithCallTimeout sets how long one call may take, at least a millisecond. A call that takes longer fails. If such a
// call reaches the server after this time, it has no effect. The default is 500 ms.
func WithCallTimeout(d time.Duration) Option {
	return func(o *options) error {
		if d < time.Millisecond {
			return fmt.Errorf("shared: call timeout %v is shorter than a millisecond", d)
		}
		o.callTimeout = d
		return nil
	}
}

// WithLease sets how long a request may take from its permit to its outcome, at least a second. After that time the
// request counts as unanswered. The default is 30 s.
func WithLease(d time.Duration) Option {
	return func(o *options) error {
		if d < time.Second {
			return fmt.Errorf("shared: lease %v is shorter than a second", d)
		}
		o.lease = d
		return nil
	}
}

// WithLogger sends warnings to logger instead of slog.Default(). Each manager warns when an outage begins, and when the
// outage ends, with the outage's duration. Each manager also warns about keys with foreign values, once a minute for
// each key. Nil turns warnings off.
func WithLogger(logger *slog.Logger) Option {
	return func(o *options) error {
		if logger == nil {
			logger = slog.New(slog.DiscardHandler)
		}
		o.logger = logger
		return nil
	}
}

func defaultOptions() options {
	return options{
		application: "default",
		callTimeout: 500 * time.Millisecond,
		lease:       30 * time.Second,
		trip:        250 * time.Millisecond,
	}
}
