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

// Plugin is a River plugin: a middleware around each job, and a hook that records whether the job's arguments could be
// decoded. Make a Plugin with New. Put it into river.Config.Plugins, so that River uses it both as middleware and as
// hook.
type Plugin struct {
	river.PluginDefaults
	policy *jobs.Policy
}

var (
	_ rivertype.Plugin           = (*Plugin)(nil)
	_ rivertype.WorkerMiddleware = (*Plugin)(nil)
	_ rivertype.HookWorkEnd      = (*Plugin)(nil)
)

// New returns a plugin with options of package jobs. Its error names the option whose value is invalid, and the value.
// Use one plugin for all jobs of a process.
func New(options ...jobs.Option) (*Plugin, error) {
	policy, err := jobs.New(options...)
	if err != nil {
		return nil, fmt.Errorf("riverlimit: %w", err)
	}
	return &Plugin{policy: policy}, nil
}

// started is the context key of a *bool, which says whether the job's worker was called.
type started struct{}

// Work, called by River, runs a job with a context that bounds the waits of its requests, and returns an error that
// tells River what to do with the job.
func (p *Plugin) Work(ctx context.Context, job *rivertype.JobRow, work func(context.Context) error) error {
	called := false
	err := work(context.WithValue(p.policy.Context(ctx), started{}, &called))
	if !called && unreadable(err) {
		err = fmt.Errorf("riverlimit: the arguments of job %d of kind %q cannot be read: %w", job.ID, job.Kind, err)
		return river.JobCancel(err)
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

// WorkEnd, called by River, records that the worker was called, which proves that the arguments could be decoded.
func (p *Plugin) WorkEnd(ctx context.Context, _ *rivertype.JobRow, err error) error {
	if called, ok := ctx.Value(started{}).(*bool); ok {
		*called = true
	}
	return err
}

// Nonce returns a nonce for the message of a job. All attempts of a job have the same nonce, and different jobs have
// different nonces. If a job sends several messages, add parts that distinguish them. See jobs.WithNonce.
func Nonce(job *rivertype.JobRow, parts ...string) string {
	created := job.CreatedAt.UTC().Format(time.RFC3339Nano)
	own := []string{"river", strconv.FormatInt(job.ID, 10), created, job.Kind}
	return jobs.Nonce(append(own, parts...)...)
}

// unreadable reports whether err is an error of package json, with which River decodes the arguments.
func unreadable(err error) bool {
	return is[*json.SyntaxError](err) || is[*json.UnmarshalTypeError](err)
}

// is reports whether an error's tree contains an error of type E.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
