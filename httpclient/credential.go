package httpclient

import (
	"net/http"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/routes"
)

const (
	codeUnknownWebhook   = 10015
	codeInvalidPathToken = 50027
)

// credential is what one request shows of itself.
type credential struct {
	*credentials
	ask      *buckets.Request
	standing *standing // of its Authorization, nil if it has none
	number   uint64    // of its latest attempt, see standing
}

func (c *credentials) of(ask *buckets.Request) credential {
	return credential{credentials: c, ask: ask, standing: c.standingOf(ask.Server, ask.Authorization)}
}

// check returns the error for a request whose credential is stopped.
func (c *credential) check() error {
	if err := c.standing.check(); err != nil {
		err.Route = c.ask.Route.Route().String()
		return err
	}
	if c.count.Load() == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range [...]place{c.inPath(), c.here()} {
		s, ok := c.stopped[p]
		if !ok {
			continue
		}
		if left := time.Until(s.until); left > 0 {
			return &CredentialError{Route: c.ask.Route.Route().String(), Kind: p.kind, Status: s.status, RetryAfter: left}
		}
		c.forget(p)
	}
	return nil
}

// leaves is called when the request is about to be sent.
func (c *credential) leaves() {
	if c.standing != nil {
		c.number = c.standing.sent.Add(1)
	}
}

// answered takes in a response, without waiting for its body: what only that tells is learnt while the caller reads it.
func (c *credential) answered(response *http.Response) {
	switch status := response.StatusCode; {
	case 200 <= status && status < 300:
		c.worked()
	case status == http.StatusUnauthorized:
		c.unauthorized(response)
	case status == http.StatusNotFound && c.inPath().kind == CredentialWebhook:
		examine(response, func(_ verdict, code int) {
			if code == codeUnknownWebhook || code == 0 && isWebhookItself(c.ask.Route.Route()) {
				c.stop(c.inPath(), stop{http.StatusNotFound, time.Now().Add(missingFor), 0})
			}
		})
	}
}

// worked takes in a success. Where there is a token in the path it says nothing of the Authorization, which is not needed there.
func (c *credential) worked() {
	if c.standing == nil || c.tokenInPath() {
		return
	}
	c.standing.succeed(c.number)
	if c.count.Load() > 0 {
		c.lift(c.here(), c.number)
	}
}

// unauthorized takes in a 401. Its header says at once whether it can be Discord's. A body that says otherwise takes that back.
func (c *credential) unauthorized(response *http.Response) {
	likely := isJSON(response.Header.Get("Content-Type"))
	if likely {
		c.refused()
	}
	examine(response, func(v verdict, code int) {
		switch {
		case v == unread:
		case v == ours:
			if !likely {
				c.refused()
			}
			c.refusedWith(code)
		case likely:
			c.takeBack()
		}
	})
}

// refused stops what is stopped by any 401.
func (c *credential) refused() {
	if c.standing == nil {
		if c.tokenInPath() {
			c.stopToken()
		}
		return
	}
	// If it is about the token in the path, the place is that token's.
	if c.standing.counts(c.number) {
		c.stop(c.here(), stop{http.StatusUnauthorized, time.Now().Add(restTime), c.number})
	}
	if !c.tokenInPath() {
		c.standing.refuse(c.refusal())
	}
}

// refusedWith stops what only the code of a 401 tells.
func (c *credential) refusedWith(code int) {
	switch {
	case c.standing == nil:
	case !c.tokenInPath():
		if r := c.ask.Route.Route(); code == 0 && c.standing.bot && (r == routes.GetMyUser || r == routes.GetBotGateway) {
			c.standing.prove(c.number) // all that these need is a bot's token
		}
	case code == codeInvalidPathToken:
		c.stopToken()
	default:
		c.standing.refuse(c.refusal())
	}
}

// takeBack undoes refused.
func (c *credential) takeBack() {
	if c.standing == nil {
		c.lift(c.inPath(), c.number)
		return
	}
	c.lift(c.here(), c.number)
	c.standing.takeBack(c.number)
}

func (c *credential) refusal() refusal {
	return refusal{number: c.number, place: c.here()}
}

func (c *credential) tokenInPath() bool { return c.ask.Route.MajorToken() != "" }

func (c *credential) stopToken() {
	p, life := c.inPath(), webhookLife
	if p.kind == CredentialInteraction {
		life = interactionLife
	}
	c.stop(p, stop{http.StatusUnauthorized, time.Now().Add(life), 0})
}

// inPath is where the credential in the path is stopped, the zero place if there is none.
func (c *credential) inPath() place {
	o := owner{server: c.ask.Server}
	switch r := c.ask.Route.Route(); {
	case r.GlobalExempt():
		o.kind = CredentialInteraction
	case r.Major() == routes.MajorWebhook || r.Major() == routes.MajorWebhookToken:
		o.kind = CredentialWebhook
	default:
		return place{}
	}
	o.hash = c.hashMajor(c.ask.Route)
	return place{owner: o}
}

// here is where the Authorization is stopped by a 401, the zero place if there is none.
func (c *credential) here() place {
	if c.standing == nil {
		return place{}
	}
	route := c.ask.Route.Route()
	switch route { // the age of a message changes its limit, and not who may delete it
	case routes.DeleteYoungMessage, routes.DeleteOldMessage:
		route = routes.DeleteMessage
	}
	return place{c.standing.owner, route, c.hashMajor(c.ask.Route)}
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
