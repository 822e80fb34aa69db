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

// Limiter makes tasks of an asynq server wait in Redis instead of in the process if the tasks have to wait long for a
// limit. Make a Limiter with New. A Limiter is safe for concurrent use.
type Limiter struct{ policy *jobs.Policy }

// New returns a limiter with options of package jobs. Its error names the option whose value is invalid, and the value.
// Use one limiter for all tasks of a process.
func New(options ...jobs.Option) (*Limiter, error) {
	policy, err := jobs.New(options...)
	if err != nil {
		return nil, fmt.Errorf("asynqlimit: %w", err)
	}
	return &Limiter{policy}, nil
}

// SnoozeError is the error of a task that has to wait for a limit. It does not count as a failure, and uses up no
// attempt.
type SnoozeError struct {
	// Until is when asynq runs the task again.
	Until time.Time
	// Err is the error for which the task was snoozed.
	Err error
}

func (e *SnoozeError) Error() string {
	return "snoozed until " + e.Until.UTC().Format(time.RFC3339) + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *SnoozeError) Unwrap() error { return e.Err }

// Middleware runs tasks with a context that bounds the waits of their requests, and tells asynq how to treat the errors
// of tasks. Pass Middleware to asynq.ServeMux.Use. Also use Configure, because otherwise a snooze would count as a
// failure.
//
// asynq archives a task that has no attempts left, whatever its error is. In the last attempt of a task, requests
// therefore wait in the process, as long as the transport allows.
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

// taskKey is the context key of the current task.
type taskKey struct{}

// lastAttempt reports whether asynq would archive the task after an error, so that the task cannot be snoozed.
func lastAttempt(ctx context.Context) bool {
	retried, known := asynq.GetRetryCount(ctx)
	most, _ := asynq.GetMaxRetry(ctx)
	return known && retried >= most
}

// Configure returns a server's configuration in which a snooze does not count as a failure, and lasts until
// SnoozeError.Until. The given IsFailure, RetryDelayFunc and ErrorHandler get all other errors. ErrorHandler also gets
// a snooze of a last attempt, because asynq then archives the task. If there is no RetryDelayFunc, the delays are
// asynq's defaults, except that the delay after asynq.ErrLeaseExpired is one second. asynq.ErrLeaseExpired means that
// the task's process has died.
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

// defaultDelay returns asynq's default delay, except for a task whose process has died. Such a task waits only a
// second, because it has already waited a minute, and Discord remembers the nonce of its message only for a few
// minutes.
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

// JSON returns a handler for tasks whose payload is JSON. A task whose payload cannot be decoded is archived at once,
// with an error that says so.
func JSON[T any](work func(ctx context.Context, payload T) error) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		var payload T
		if err := json.Unmarshal(task.Payload(), &payload); err != nil {
			return fmt.Errorf("asynqlimit: the payload of a task of type %q cannot be read: %w: %w",
				task.Type(), err, asynq.SkipRetry)
		}
		return work(ctx, payload)
	})
}

// Nonce returns a nonce for the message of a task. Pass the context with which Middleware calls the task's handler. All
// attempts of a task have the same nonce, and different tasks have different nonces. If a task sends several messages,
// add parts that distinguish them. See jobs.WithNonce.
func Nonce(ctx context.Context, parts ...string) string {
	id, _ := asynq.GetTaskID(ctx)
	queue, _ := asynq.GetQueueName(ctx)
	own := []string{"asynq", queue, id}
	if task, ok := ctx.Value(taskKey{}).(*asynq.Task); ok { // callers of asynq can reuse an id for another task
		own = append(own, task.Type(), string(task.Payload()))
	}
	return jobs.Nonce(append(own, parts...)...)
}
