package riverlimit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/ratelight/ratelight/httpclient/jobs"
)

// Plugin is a River plugin: a middleware around each job, and a hook that tells whether its arguments could be read. Make one with New,
// and put it into river.Config.Plugins, so that it is both.
type Plugin struct {
	river.PluginDefaults
	policy *jobs.Policy
}

var (
	_ rivertype.Plugin           = (*Plugin)(nil)
	_ rivertype.WorkerMiddleware = (*Plugin)(nil)
	_ rivertype.HookWorkEnd      = (*Plugin)(nil)
)

// New returns a plugin. The options are those of package jobs; the error names the one that makes no sense, and its value. Use one plugin
// for all jobs of a process.
func New(options ...jobs.Option) (*Plugin, error) {
	policy, err := jobs.New(options...)
	if err != nil {
		return nil, fmt.Errorf("riverlimit: %w", err)
	}
	return &Plugin{policy: policy}, nil
}

// started is the context key of whether a job's worker was called.
type started struct{}

// Work works a job with a context that bounds the waits of its requests, and tells River what becomes of it. River calls it.
func (p *Plugin) Work(ctx context.Context, job *rivertype.JobRow, work func(context.Context) error) error {
	called := false
	err := work(context.WithValue(p.policy.Context(ctx), started{}, &called))
	if !called && unreadable(err) {
		return river.JobCancel(fmt.Errorf("riverlimit: the arguments of job %d of kind %q cannot be read: %w", job.ID, job.Kind, err))
	}
	if is[*river.JobCancelError](err) || is[*river.JobSnoozeError](err) { // the worker has decided
		return err
	}
	switch d := p.policy.Decide(err); d.Action {
	case jobs.Cancel:
		return river.JobCancel(d.Err)
	case jobs.Snooze:
		return river.JobSnooze(d.After)
	default:
		return d.Err
	}
}

// WorkEnd notes that the worker was called, so its arguments could be read. River calls it.
func (p *Plugin) WorkEnd(ctx context.Context, _ *rivertype.JobRow, err error) error {
	if called, ok := ctx.Value(started{}).(*bool); ok {
		*called = true
	}
	return err
}

// Nonce returns a nonce for the messages of a job: the same whenever it is tried, and another one for each job. For a job that sends
// several messages, add what tells them apart. See jobs.WithNonce.
func Nonce(job *rivertype.JobRow, parts ...string) string {
	return jobs.Nonce(append([]string{"river", strconv.FormatInt(job.ID, 10), job.CreatedAt.UTC().Format(time.RFC3339Nano), job.Kind}, parts...)...)
}

// unreadable reports an error of package json, which River decodes the arguments with.
func unreadable(err error) bool {
	return is[*json.SyntaxError](err) || is[*json.UnmarshalTypeError](err)
}

// is reports whether there is an error of type E in an error's tree.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
