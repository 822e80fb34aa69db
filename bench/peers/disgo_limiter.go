package main

import (
	"bytes"
	"context"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"

	"github.com/disgoorg/disgo/discord"
	"github.com/disgoorg/disgo/rest"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// disgoLimiter is a rest.RateLimiter for disgo that asks a bucket manager, for those who want the limits where disgo has
// them: before the request is made, with the context of rest.WithCtx. The client above needs no other transport then.
// It is safe for concurrent use.
type disgoLimiter struct {
	manager       *buckets.RESTBucketManager
	authorization string

	mu    sync.Mutex
	calls map[*rest.CompiledEndpoint]*endpointCalls
}

// endpointCalls are the calls made with one compiled endpoint. disgo compiles one for each call, and uses it again when it
// repeats the call after a 429; somebody else may share it between calls, which are then alike.
type endpointCalls struct {
	underWay []underWay
	refused  []*buckets.Request // they have a place in the queue
}

type underWay struct {
	request *buckets.Request
	lease   buckets.Lease
}

// newDisgoLimiter returns a limiter for the requests of one bot. The manager stays the caller's: start and close it.
func newDisgoLimiter(manager *buckets.RESTBucketManager, botToken string) *disgoLimiter {
	return &disgoLimiter{
		manager:       manager,
		authorization: discord.TokenTypeBot.Apply(botToken),
		calls:         make(map[*rest.CompiledEndpoint]*endpointCalls),
	}
}

// MaxRetries is no limit: the manager refuses to wait when that would take too long.
func (l *disgoLimiter) MaxRetries() int { return math.MaxInt }

// Close does nothing. Closing the manager ends what waits.
func (l *disgoLimiter) Close(context.Context) {}

// Reset does nothing: to forget what Discord counts would draw 429s. disgo calls it when a client is made.
func (l *disgoLimiter) Reset() {}

// WaitBucket waits until the request may be sent.
func (l *disgoLimiter) WaitBucket(ctx context.Context, endpoint *rest.CompiledEndpoint) error {
	request, err := l.request(endpoint)
	if err != nil {
		return err
	}
	lease, err := l.manager.AcquireRequest(ctx, request)
	if err != nil {
		return err
	}
	l.change(endpoint, func(c *endpointCalls) { c.underWay = append(c.underWay, underWay{request, lease}) })
	return nil
}

// request returns the request that was refused, or a new one.
func (l *disgoLimiter) request(endpoint *rest.CompiledEndpoint) (request *buckets.Request, err error) {
	l.change(endpoint, func(c *endpointCalls) {
		if len(c.refused) > 0 {
			request, c.refused = c.refused[0], c.refused[1:]
		}
	})
	if request != nil {
		return request, nil
	}
	path, _, _ := strings.Cut(endpoint.URL, "?")
	route, err := routes.Match(endpoint.Endpoint.Method, path)
	if err != nil {
		return nil, err
	}
	request = &buckets.Request{Route: route}
	if endpoint.Endpoint.BotAuth {
		request.Authorization = l.authorization
	}
	return request, nil
}

// UnlockBucket tells the manager what the response says. A nil response means that the outcome is not known.
func (l *disgoLimiter) UnlockBucket(endpoint *rest.CompiledEndpoint, response *http.Response) error {
	var call underWay
	l.change(endpoint, func(c *endpointCalls) {
		if len(c.underWay) > 0 {
			call, c.underWay = c.underWay[0], c.underWay[1:]
		}
	})
	defer call.lease.Release()
	if response == nil {
		return nil
	}
	var body []byte
	if response.StatusCode == http.StatusTooManyRequests { // no other body says something about limits
		var err error
		if body, err = io.ReadAll(response.Body); err != nil {
			return err
		}
		response.Body.Close()
		response.Body = io.NopCloser(bytes.NewReader(body)) // disgo reads it again
		l.change(endpoint, func(c *endpointCalls) { c.refused = append(c.refused, call.request) })
	}
	call.lease.Update(ratelimits.ParseResponse(response.StatusCode, response.Header, body))
	return nil
}

// change lets f change the calls of an endpoint, and forgets an endpoint that has none.
func (l *disgoLimiter) change(endpoint *rest.CompiledEndpoint, f func(*endpointCalls)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.calls[endpoint]
	if c == nil {
		c = new(endpointCalls)
		l.calls[endpoint] = c
	}
	f(c)
	if len(c.underWay) == 0 && len(c.refused) == 0 {
		delete(l.calls, endpoint)
	}
}

var _ rest.RateLimiter = (*disgoLimiter)(nil)
