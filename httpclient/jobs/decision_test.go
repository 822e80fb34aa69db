package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/httpclient/jobs"
	"github.com/ratelight/ratelight/httpclient/rest"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

func errOf(_ routes.CompiledRoute, err error) error { return err }

// exact returns a policy without a random spread.
func exact(t *testing.T, options ...jobs.Option) *jobs.Policy {
	t.Helper()
	policy, err := jobs.New(append([]jobs.Option{jobs.WithSpread(0)}, options...)...)
	require.NoError(t, err)
	return policy
}

// libraryError stands for the error type of another library.
type libraryError struct{ status int }

func (e *libraryError) Error() string { return http.StatusText(e.status) }

func TestWhatBecomesOfAJob(t *testing.T) {
	t.Parallel()
	of := func(err error) jobs.Status {
		if e, ok := errors.AsType[*libraryError](err); ok {
			return jobs.Status{Status: e.status, RetryAfter: 7 * time.Second}
		}
		return jobs.Status{}
	}
	const webhook, interaction = httpclient.CredentialWebhook, httpclient.CredentialInteraction
	for name, c := range map[string]struct {
		err   error
		want  jobs.Action
		after time.Duration
	}{
		"no error": {nil, jobs.Done, 0},
		"too long": {
			&ratelimits.TooLongError{Wait: time.Minute, Max: 5 * time.Second}, jobs.Snooze, time.Minute - 2500*time.Millisecond,
		},
		"waited already": {&ratelimits.TooLongError{Wait: time.Minute, Waited: 10 * time.Second},
			jobs.Snooze, 50 * time.Second},
		"no wait allowed": {&ratelimits.TooLongError{Wait: time.Minute}, jobs.Snooze, time.Minute},
		"a deadline": {
			&ratelimits.TooLongError{Wait: 3 * time.Second, Max: 2 * time.Second, Deadline: true}, jobs.Snooze, 2 * time.Second,
		},
		"no prediction":      {&ratelimits.TooLongError{Max: 5 * time.Second}, jobs.Snooze, 5 * time.Second},
		"a full queue":       {&ratelimits.QueueFullError{}, jobs.Snooze, 5 * time.Second},
		"many invalid":       {&ratelimits.BudgetError{RetryAfter: time.Minute}, jobs.Snooze, time.Minute},
		"the edge":           {&ratelimits.EdgeError{Hold: time.Minute}, jobs.Snooze, time.Minute},
		"superseded":         {&ratelimits.SupersededError{}, jobs.Cancel, 0},
		"closed":             {buckets.ErrClosed, jobs.Snooze, 5 * time.Second},
		"a resting token":    {&httpclient.CredentialError{Status: 401, RetryAfter: time.Minute}, jobs.Snooze, time.Minute},
		"a webhook's token":  {&httpclient.CredentialError{Kind: webhook, Status: 401}, jobs.Cancel, 0},
		"a deleted webhook":  {&httpclient.CredentialError{Kind: webhook, Status: 404}, jobs.Cancel, 0},
		"an old interaction": {&httpclient.CredentialError{Kind: interaction, Status: 401}, jobs.Cancel, 0},
		"a malformed path":   {errOf(routes.Match("", "/channels/1")), jobs.Cancel, 0},
		"a bad path":         {fmt.Errorf("send: %w", rest.ErrPath), jobs.Cancel, 0},
		"a malformed header": {rest.ErrHeader, jobs.Cancel, 0},
		"a library's 429":    {&libraryError{429}, jobs.Snooze, 7 * time.Second},
		"a library's 403":    {&libraryError{403}, jobs.Cancel, 0},
		"a library's 502":    {&libraryError{502}, jobs.Retry, 0},
		"a broken line":      {&httpclient.RetryError{Err: io.ErrUnexpectedEOF}, jobs.Retry, 0},
		"an end":             {context.Canceled, jobs.Retry, 0},
		"anything else":      {errors.New("disk full"), jobs.Retry, 0},
		"by way of net/http": {&url.Error{Op: "Post", URL: "/", Err: &httpclient.CredentialError{Kind: webhook}},
			jobs.Cancel, 0},
	} {
		inBubble(t, name, func(t *testing.T) {
			d := exact(t, jobs.WithStatus(of)).Decide(c.err)
			assert.Equal(t, c.want, d.Action)
			assert.Equal(t, c.after, d.After)
			assert.Equal(t, c.err == nil, d.Err == nil)
		})
	}
}

func TestWhatBecomesOfAJobThatDiscordAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
		want   jobs.Action
	}{
		"400":                 {400, `{"code":30034}`, jobs.Retry},
		"an invalid form":     {400, `{"code":50035}`, jobs.Cancel},
		"401":                 {401, `{"code":0}`, jobs.Retry},
		"403":                 {403, `{"code":50013}`, jobs.Cancel},
		"direct messages":     {403, `{"code":40003}`, jobs.Retry},
		"404":                 {404, `{"code":10003}`, jobs.Cancel},
		"500":                 {500, ``, jobs.Retry},
		"503":                 {503, ``, jobs.Retry},
		"a page that says OK": {520, `<html>`, jobs.Retry},
	} {
		inBubble(t, name, func(t *testing.T) {
			server := discordtest.NewServer(t, discordtest.Answer(create, c.status, c.body))
			_, err := newClient(t, server).Do(t.Context(), http.MethodPost, "/channels/1/messages", nil)
			require.Error(t, err)
			none := jobs.WithStatus(func(error) jobs.Status { return jobs.Status{} })
			for _, policy := range []*jobs.Policy{exact(t), exact(t, none)} {
				assert.Equal(t, c.want, policy.Decide(fmt.Errorf("send: %w", err)).Action)
			}
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Discord refuses a token, either for five minutes or for ever. If it is for five minutes, a bot's job must succeed
// afterwards, but a webhook's job may be cancelled.
func TestAJobOutlivesTheRestOfItsAuthorization(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path  string
		wrong time.Duration
		want  jobs.Action
		most  int // largest number of attempts that a job may use up
	}{
		"for a while":       {"/channels/1/messages", 5 * time.Minute, jobs.Done, 1},
		"for good":          {"/channels/1/messages", 100 * time.Hour, jobs.Cancel, 3},
		"the webhook's own": {"/webhooks/1/token", 5 * time.Minute, jobs.Cancel, 1},
	} {
		inBubble(t, name, func(t *testing.T) {
			const attempts = 3
			start := time.Now()
			base := roundTripper(func(r *http.Request) (*http.Response, error) {
				status := http.StatusOK
				if time.Since(start) < c.wrong {
					status = http.StatusUnauthorized
				}
				header := http.Header{"Via": {"1.1 google"}}
				return &http.Response{StatusCode: status, Header: header, Body: http.NoBody, Request: r}, nil
			})
			client := rest.New("token", rest.WithTransport(httpclient.WithBase(base)))
			defer client.Close()
			policy := exact(t)
			for range 2 { // the second job begins while the token rests
				used := 0
				d := jobs.Decision{Action: jobs.Retry}
				for d.Action == jobs.Retry || d.Action == jobs.Snooze {
					_, err := client.Do(policy.Context(t.Context()), http.MethodPost, c.path, nil)
					d = policy.Decide(err)
					if d.Action == jobs.Retry {
						if used++; used == attempts {
							d.Action = jobs.Cancel // as the job queue does after the last attempt
						}
					}
					time.Sleep(max(d.After, time.Second))
				}
				assert.Equal(t, c.want, d.Action, "%v", d.Err)
				assert.LessOrEqual(t, used, c.most)
			}
		})
	}
}

// A job queue keeps the error of a job, and everyone who can read the queue can read the error. So the error must show
// no token.
func TestTheErrorOfAJobShowsNoToken(t *testing.T) {
	t.Parallel()
	err := &url.Error{Op: "Post", URL: "https://discord.com/api/webhooks/1/secret-of-the-webhook",
		Err: io.ErrUnexpectedEOF}
	d := exact(t).Decide(err)
	assert.NotContains(t, d.Err.Error(), "secret")
	assert.ErrorIs(t, d.Err, io.ErrUnexpectedEOF)
}

func TestOptionsThatMakeNoSenseAreNamed(t *testing.T) {
	t.Parallel()
	_, err := jobs.New(jobs.WithMaxWait(-time.Second))
	assert.EqualError(t, err, "jobs: WithMaxWait(-1s): want 0 or more")
	_, err = jobs.New(jobs.WithSpread(-time.Minute))
	assert.EqualError(t, err, "jobs: WithSpread(-1m0s): want 0 or more")
	_, err = jobs.New(nil, jobs.WithStatus(nil), jobs.WithMaxWait(0), jobs.WithSpread(0))
	assert.NoError(t, err)
}

func TestActionsHaveNames(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "[done retry snooze cancel unknown]",
		fmt.Sprint([]jobs.Action{jobs.Done, jobs.Retry, jobs.Snooze, jobs.Cancel, 7}))
}
