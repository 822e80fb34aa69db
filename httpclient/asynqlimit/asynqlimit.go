package asynqlimit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/ratelight/ratelight/httpclient/jobs"
)

// Limiter lets the tasks of a server wait in Redis where they would wait long for a limit. Make one with New. It is safe for concurrent use.
type Limiter struct{ policy *jobs.Policy }

// New returns a limiter. The options are those of package jobs; the error names the one that makes no sense, and its value. Use one limiter
// for all tasks of a process.
func New(options ...jobs.Option) (*Limiter, error) {
	policy, err := jobs.New(options...)
	if err != nil {
		return nil, fmt.Errorf("asynqlimit: %w", err)
	}
	return &Limiter{policy}, nil
}

// SnoozeError is the error of a task that comes back later because of a limit. It is no failure, and uses up no attempt.
type SnoozeError struct {
	// Until is when the task comes back.
	Until time.Time
	// Err is the reason.
	Err error
}

func (e *SnoozeError) Error() string {
	return "snoozed until " + e.Until.UTC().Format(time.RFC3339) + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *SnoozeError) Unwrap() error { return e.Err }

// Middleware works tasks with a context that bounds the waits of their requests, and tells asynq what becomes of them. It is for
// asynq.ServeMux.Use. Without Configure a snooze would be a failure.
//
// asynq archives a task that has no attempts left, whatever it returns. So the last attempt waits in the process, as long as the transport
// lets it.
func (l *Limiter) Middleware(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		if !lastAttempt(ctx) {
			ctx = l.policy.Context(ctx)
		}
		err := next.ProcessTask(context.WithValue(ctx, taskKey{}, task), task)
		if errors.Is(err, asynq.SkipRetry) || errors.Is(err, asynq.RevokeTask) { // the handler has decided
			return err
		}
		switch d := l.policy.Decide(err); d.Action {
		case jobs.Cancel:
			return fmt.Errorf("%w: %w", d.Err, asynq.SkipRetry)
		case jobs.Snooze:
			return &SnoozeError{Until: time.Now().Add(d.After), Err: d.Err}
		default:
			return d.Err
		}
	})
}

// taskKey is the context key of the task that is worked.
type taskKey struct{}

// lastAttempt reports a task that cannot be snoozed.
func lastAttempt(ctx context.Context) bool {
	retried, known := asynq.GetRetryCount(ctx)
	most, _ := asynq.GetMaxRetry(ctx)
	return known && retried >= most
}

// Configure returns a server's configuration in which a snooze is no failure and lasts as long as it should. Everything else is left to the
// given IsFailure, RetryDelayFunc and ErrorHandler. Without a RetryDelayFunc, delays are asynq's, but a second for asynq.ErrLeaseExpired: a
// task whose process has died.
func (l *Limiter) Configure(config asynq.Config) asynq.Config {
	isFailure, delay, handler := config.IsFailure, config.RetryDelayFunc, config.ErrorHandler
	if isFailure == nil {
		isFailure = func(err error) bool { return err != nil }
	}
	if delay == nil {
		delay = defaultDelay
	}
	config.IsFailure = func(err error) bool { return snoozed(err) == nil && isFailure(err) }
	config.RetryDelayFunc = func(n int, err error, task *asynq.Task) time.Duration {
		if s := snoozed(err); s != nil {
			return max(time.Until(s.Until), 0)
		}
		return delay(n, err, task)
	}
	if handler != nil {
		config.ErrorHandler = asynq.ErrorHandlerFunc(func(ctx context.Context, task *asynq.Task, err error) {
			if snoozed(err) == nil || lastAttempt(ctx) {
				handler.HandleError(ctx, task, err)
			}
		})
	}
	return config
}

// defaultDelay is asynq's, but for tasks whose process has died: those have waited a minute already, and Discord remembers nonces for a few.
func defaultDelay(n int, err error, task *asynq.Task) time.Duration {
	if errors.Is(err, asynq.ErrLeaseExpired) {
		return time.Second
	}
	return asynq.DefaultRetryDelayFunc(n, err, task)
}

func snoozed(err error) *SnoozeError {
	s, _ := errors.AsType[*SnoozeError](err)
	return s
}

// JSON returns a handler for tasks whose payload is JSON. A payload that cannot be read is not tried again; the task is archived with an
// error that says so.
func JSON[T any](work func(ctx context.Context, payload T) error) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		var payload T
		if err := json.Unmarshal(task.Payload(), &payload); err != nil {
			return fmt.Errorf("asynqlimit: the payload of a task of type %q cannot be read: %w: %w", task.Type(), err, asynq.SkipRetry)
		}
		return work(ctx, payload)
	})
}

// Nonce returns a nonce for the messages of the task that a handler below Middleware works with the context: the same whenever it is tried, and
// another one for each task. For a task that sends several messages, add what tells them apart. See jobs.WithNonce.
func Nonce(ctx context.Context, parts ...string) string {
	id, _ := asynq.GetTaskID(ctx)
	queue, _ := asynq.GetQueueName(ctx)
	own := []string{"asynq", queue, id}
	if task, ok := ctx.Value(taskKey{}).(*asynq.Task); ok { // ids can be chosen, and used again for something else
		own = append(own, task.Type(), string(task.Payload()))
	}
	return jobs.Nonce(append(own, parts...)...)
}
