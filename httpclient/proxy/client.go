package proxy

import (
	"context"
	"sync"
	"time"

	"github.com/ratelight/ratelight/httpclient"
)

// answerPatience bounds the wait for the answer to a request whose client has disconnected.
const answerPatience = httpclient.DefaultAttemptTimeout

// clientKey is the context key of a request's client.
type clientKey struct{}

// client ends the context of a request when the client has disconnected. If the request is in flight at that time, the
// proxy first waits for the answer, which says whether the request was invalid. Without this wait, the proxy would not
// count the invalid requests of a client that never waits for answers, and Discord could ban the address.
type client struct {
	end  context.CancelFunc
	stop func() bool // ends the watch for the client's disconnect

	mu       sync.Mutex // guards all fields below
	gone     bool
	inFlight bool
	giveUp   *time.Timer // ends the wait for the answer; nil before that wait
}

// follow returns a context for a request, and the client that ends this context. The returned context also ends at the
// deadline of ctx. When the request has ended, leave must be called.
func follow(ctx context.Context) (context.Context, *client) {
	c := new(client)
	own := context.WithValue(context.WithoutCancel(ctx), clientKey{}, c)
	if deadline, ok := ctx.Deadline(); ok {
		own, c.end = context.WithDeadline(own, deadline)
	} else {
		own, c.end = context.WithCancel(own)
	}
	c.stop = context.AfterFunc(ctx, c.goes)
	return own, c
}

// leave ends the context and releases its resources.
func (c *client) leave() {
	c.stop()
	c.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.giveUp != nil {
		c.giveUp.Stop()
	}
}

// goes records that the client has disconnected.
func (c *client) goes() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	if !c.inFlight {
		c.end()
		return
	}
	c.giveUp = time.AfterFunc(answerPatience, c.end)
}

// hasGone reports whether the client has disconnected.
func (c *client) hasGone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

// sends records that an attempt begins (inFlight is true) or ends. It does nothing if c is nil.
func (c *client) sends(inFlight bool) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inFlight = inFlight; !inFlight && c.gone {
		c.end()
	}
}

// clientHooks report each attempt to the client of the request.
var clientHooks = httpclient.Hooks{
	Request:  func(ctx context.Context, _ httpclient.RequestEvent) { clientOf(ctx).sends(true) },
	Response: func(ctx context.Context, _ httpclient.ResponseEvent) { clientOf(ctx).sends(false) },
}

// clientOf returns the client of a request, or nil if the request did not come through a Handler.
func clientOf(ctx context.Context) *client {
	c, _ := ctx.Value(clientKey{}).(*client)
	return c
}
