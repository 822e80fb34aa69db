package httpclient

import (
	"net/http"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient/internal/message"
	"github.com/ratelight/ratelight/routes"
)

const (
	codeUnknownWebhook   = 10015
	codeInvalidPathToken = 50027
)

// credential is what one request shows of itself.
type credential struct {
	*credentials
	ask    *buckets.Request
	state  *authorizationState // of its Authorization, nil if it has none
	number uint64              // of its latest attempt, see authorizationState
}

func (c *credentials) of(ask *buckets.Request) credential {
	return credential{credentials: c, ask: ask, state: c.stateOf(ask.Server, ask.Authorization)}
}

// check returns the error for a request whose credential is stopped.
func (c *credential) check() error {
	if err := c.state.check(); err != nil {
		err.Route = c.ask.Route.Route().String()
		return err
	}
	if c.count.Load() == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range [...]scope{c.inPath(), c.here()} {
		for _, e := range [...]evidence{confirmed, byHeader} {
			s, ok := c.stopped[finding{p, e}]
			if !ok {
				continue
			}
			if left := time.Until(s.until); left > 0 {
				return &CredentialError{Route: c.ask.Route.Route().String(), Kind: p.kind, Status: s.status, RetryAfter: left}
			}
			c.forget(finding{p, e})
		}
	}
	return nil
}

// leaves is called when the request is about to be sent.
func (c *credential) leaves() {
	if c.state != nil {
		c.number = c.state.sent.Add(1)
	}
}

// answered takes in a response, without waiting for its body: what only that says is learnt while the caller reads it.
func (c *credential) answered(response *http.Response) {
	switch status := response.StatusCode; {
	case 200 <= status && status < 300:
		c.worked()
	case status == http.StatusUnauthorized:
		c.unauthorized(response)
	case status == http.StatusNotFound && c.inPath().kind == CredentialWebhook:
		inspectError(response, func(_ bodyOrigin, code int) {
			if code == codeUnknownWebhook || code == 0 && isWebhookItself(c.ask.Route.Route()) {
				c.stop(finding{c.inPath(), confirmed}, stop{http.StatusNotFound, time.Now().Add(missingFor), 0})
			}
		})
	}
}

// worked takes in a success. Where there is a token in the path it says nothing of the Authorization, which is not needed there.
func (c *credential) worked() {
	if c.state == nil || c.tokenInPath() {
		return
	}
	c.state.succeed(c.number)
	if c.count.Load() > 0 {
		c.lift(c.here(), c.number)
	}
}

// unauthorized takes in a 401. Its header says at once whether it can be Discord's, and stops its place. A body that says otherwise takes
// that back; else it counts against the credential as a whole, too.
func (c *credential) unauthorized(response *http.Response) {
	likely := message.IsJSON(response.Header.Get("Content-Type"))
	if likely {
		c.refusedHere(byHeader)
	}
	inspectError(response, func(v bodyOrigin, code int) {
		if v == fromDiscord || v == unread && likely {
			c.refusedHere(confirmed)
			c.refusedWith(v, code)
		}
		if likely {
			c.takeBack(finding{c.scope(), byHeader}, c.number)
		}
	})
}

// scope is where a 401 stops the credential. If it is about the token in the path, the place of an Authorization is that token's.
func (c *credential) scope() scope {
	if c.state == nil && c.tokenInPath() {
		return c.inPath()
	}
	return c.here()
}

// refusedHere stops what any 401 stops.
func (c *credential) refusedHere(e evidence) {
	p, until := c.scope(), time.Now().Add(restTime)
	switch {
	case p == scope{}:
		return
	case c.state == nil:
		until = time.Now().Add(c.tokenLife())
	case !c.state.counts(c.number):
		return
	case c.state.worked.Load() > c.number && !c.refusedAgain(p, c.number, c.state.sent.Load()):
		return // what left later has succeeded, perhaps here
	}
	c.stop(finding{p, e}, stop{http.StatusUnauthorized, until, c.number})
}

// refusedWith stops what the code of a 401 says, if it was read.
func (c *credential) refusedWith(v bodyOrigin, code int) {
	r := c.ask.Route.Route()
	stopped := false
	switch {
	case c.state == nil:
		return
	case c.tokenInPath() && v == unread: // it may be about that
		return
	case c.tokenInPath() && code == codeInvalidPathToken:
		c.stop(finding{c.inPath(), confirmed}, stop{http.StatusUnauthorized, time.Now().Add(c.tokenLife()), 0})
		return
	case v == fromDiscord && code == 0 && c.state.bot && (r == routes.GetMyUser || r == routes.GetBotGateway):
		stopped = c.state.prove(c.number) // all that these need is a bot's token
	}
	if c.state.refuse(refusal{c.here().route, c.number}) || stopped {
		c.wake(scope{credentialID: c.state.credentialID})
	}
}

func (c *credential) tokenInPath() bool { return c.ask.Route.MajorToken() != "" }

// tokenLife is for how long the token in the path is stopped by a 401.
func (c *credential) tokenLife() time.Duration {
	if c.inPath().kind == CredentialInteraction {
		return interactionLife
	}
	return webhookLife
}

// inPath is where the credential in the path is stopped, the zero scope if there is none.
func (c *credential) inPath() scope {
	o := credentialID{server: c.ask.Server}
	switch r := c.ask.Route.Route(); {
	case r.GlobalExempt():
		o.kind = CredentialInteraction
	case r.Major() == routes.MajorWebhook || r.Major() == routes.MajorWebhookToken:
		o.kind = CredentialWebhook
	default:
		return scope{}
	}
	o.hash = c.hashMajor(c.ask.Route)
	return scope{credentialID: o}
}

// here is where the Authorization is stopped by a 401, the zero scope if there is none.
func (c *credential) here() scope {
	if c.state == nil {
		return scope{}
	}
	route := c.ask.Route.Route()
	switch route { // the age of a message changes its limit, and not who may delete it
	case routes.DeleteYoungMessage, routes.DeleteOldMessage:
		route = routes.DeleteMessage
	}
	return scope{c.state.credentialID, route, c.hashMajor(c.ask.Route)}
}

// isWebhookItself reports that a 404 can be about nothing but the webhook: neither a message nor a thread of its.
func isWebhookItself(r routes.Route) bool {
	switch r {
	case routes.GetWebhook, routes.UpdateWebhook, routes.DeleteWebhook,
		routes.GetWebhookByToken, routes.UpdateWebhookByToken, routes.DeleteWebhookByToken:
		return true
	}
	return false
}
