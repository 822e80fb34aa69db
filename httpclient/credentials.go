package httpclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelight/ratelight/routes"
)

const (
	// A webhook that is gone is not asked for that long; somebody may have been wrong about it.
	missingFor = 10 * time.Minute
	// Interaction tokens live 15 minutes (Discord's documentation). Those of webhooks do not end, but memory does.
	interactionLife = 15 * time.Minute
	webhookLife     = 24 * time.Hour

	// maxStopped is of how many credentials it is remembered that they do not work.
	maxStopped = 10_000

	codeUnknownWebhook   = 10015
	codeInvalidPathToken = 50027
	maxPeek              = 4 << 10 // bytes of a response that are looked at

	// sweepEvery is how often those are forgotten that are over, if another one is stopped then.
	sweepEvery = time.Minute
)

// CredentialKind says what a credential is for.
type CredentialKind int

const (
	// CredentialAuthorization is the value of an Authorization header, such as a bot's token.
	CredentialAuthorization CredentialKind = iota
	// CredentialWebhook is a webhook, by its id and token.
	CredentialWebhook
	// CredentialInteraction is the token of an interaction.
	CredentialInteraction
)

func (k CredentialKind) String() string {
	names := [...]string{"Authorization", "webhook", "interaction token"}
	if k < 0 || int(k) >= len(names) {
		return fmt.Sprintf("CredentialKind(%d)", int(k))
	}
	return names[k]
}

// CredentialError says that a request was not sent because Discord has refused its credential before. More requests with it would
// only use up the invalid request budget of the address, and in the end the token is revoked.
type CredentialError struct {
	// Route is the method and template of this request, without parameters.
	Route string
	// Kind is what was refused.
	Kind CredentialKind
	// Status is how: 401 for a credential that is not valid, 404 for a webhook that is gone.
	Status int
	// RetryAfter is for how long it is not tried again, 0 for ever.
	RetryAfter time.Duration
}

func (e *CredentialError) Error() string {
	advice := "replace it, or call Readmit"
	if e.Kind != CredentialAuthorization {
		advice = fmt.Sprintf("it is not tried again for %v", e.RetryAfter.Round(time.Second))
	}
	return fmt.Sprintf("%s not sent: Discord has answered %d to its %v; %s", e.Route, e.Status, e.Kind, advice)
}

// credentials remembers which of them do not work. Only keyed hashes of them are kept.
type credentials struct {
	seed  maphash.Seed
	count atomic.Int32 // so that nobody takes the lock where there is nothing

	mu      sync.Mutex
	stopped map[credential]stop
	swept   time.Time

	readmitted time.Time // when an Authorization was the last time
}

type credential struct {
	kind CredentialKind
	hash uint64
}

type stop struct {
	status int
	until  time.Time // zero: for ever
}

func newCredentials() *credentials {
	return &credentials{seed: maphash.MakeSeed(), stopped: make(map[credential]stop)}
}

// check returns the error for a request whose credential does not work.
func (c *credentials) check(authorization string, route routes.CompiledRoute) error {
	if c.count.Load() == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range []credential{c.inPath(route), c.authorization(authorization)} {
		s, ok := c.stopped[key]
		if !ok {
			continue
		}
		err := &CredentialError{Route: route.Route().String(), Kind: key.kind, Status: s.status}
		if s.until.IsZero() {
			return err
		}
		if err.RetryAfter = time.Until(s.until); err.RetryAfter > 0 {
			return err
		}
		c.forget(key)
	}
	return nil
}

// note takes in the response to a request that was sent at the given time. Where it matters its body is read a little, and put
// together again.
func (c *credentials) note(sent time.Time, authorization string, route routes.CompiledRoute, response *http.Response) {
	switch response.StatusCode {
	case http.StatusUnauthorized:
		token := c.inPath(route)
		code, ours := peek(response)
		inPath := token.kind == CredentialInteraction || token.kind == CredentialWebhook && route.MajorToken() != ""
		switch {
		case !ours: // a proxy's, say
		case inPath && (authorization == "" || code == codeInvalidPathToken):
			life := webhookLife
			if token.kind == CredentialInteraction {
				life = interactionLife
			}
			c.stop(sent, token, http.StatusUnauthorized, life)
		case authorization != "":
			c.stop(sent, c.authorization(authorization), http.StatusUnauthorized, 0)
		}
	case http.StatusNotFound:
		if token := c.inPath(route); token.kind == CredentialWebhook && unknownWebhook(route, response) {
			c.stop(sent, token, http.StatusNotFound, missingFor)
		}
	}
}

// inPath returns the credential that is part of the path, that of an empty Authorization if there is none.
func (c *credentials) inPath(route routes.CompiledRoute) credential {
	r := route.Route()
	switch {
	case r.GlobalExempt():
		return credential{CredentialInteraction, maphash.String(c.seed, route.Major())}
	case r.Major() == routes.MajorWebhook || r.Major() == routes.MajorWebhookToken:
		return credential{CredentialWebhook, maphash.String(c.seed, route.Major())}
	}
	return credential{}
}

func (c *credentials) authorization(value string) credential {
	if value == "" {
		return credential{}
	}
	return credential{CredentialAuthorization, maphash.String(c.seed, value)}
}

func (c *credentials) stop(sent time.Time, key credential, status int, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sent.Before(c.readmitted) && key.kind == CredentialAuthorization {
		return // it was under way when somebody said that all is well again
	}
	s := stop{status: status}
	if d > 0 {
		s.until = time.Now().Add(d)
	}
	if before, ok := c.stopped[key]; ok && (before.until.IsZero() || !s.until.IsZero() && s.until.Before(before.until)) {
		return // a stop is only ever extended
	}
	if len(c.stopped) >= maxStopped || time.Since(c.swept) > sweepEvery {
		c.makeRoom()
	}
	c.stopped[key] = s
	c.count.Store(int32(len(c.stopped)))
}

// makeRoom forgets what is over, and if that is not enough, tokens in paths, and then any: one more request each will tell
// again.
func (c *credentials) makeRoom() {
	c.swept = time.Now()
	for key, s := range c.stopped {
		if !s.until.IsZero() && c.swept.After(s.until) {
			delete(c.stopped, key)
		}
	}
	for _, dispensable := range []func(credential) bool{
		func(key credential) bool { return key.kind != CredentialAuthorization },
		func(credential) bool { return true },
	} {
		for key := range c.stopped {
			if len(c.stopped) < maxStopped {
				return
			}
			if dispensable(key) {
				delete(c.stopped, key)
			}
		}
	}
}

// forget lets a credential be used again. The lock is held.
func (c *credentials) forget(key credential) {
	delete(c.stopped, key)
	c.count.Store(int32(len(c.stopped)))
}

func (c *credentials) readmit(authorization string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readmitted = time.Now()
	c.forget(c.authorization(authorization))
}

// unknownWebhook reports that a 404 is about the webhook itself, and not about a message or a thread of its.
func unknownWebhook(route routes.CompiledRoute, response *http.Response) bool {
	if code, _ := peek(response); code != 0 {
		return code == codeUnknownWebhook
	}
	switch route.Route() { // there is nothing else that could be unknown
	case routes.GetWebhook, routes.UpdateWebhook, routes.DeleteWebhook,
		routes.GetWebhookByToken, routes.UpdateWebhookByToken, routes.DeleteWebhookByToken:
		return true
	}
	return false
}

// peek returns the code in the body of an error, 0 if it has none, and whether the body can be Discord's: a JSON object, or
// nothing.
func peek(response *http.Response) (code int, ours bool) {
	head, _ := io.ReadAll(io.LimitReader(response.Body, maxPeek))
	response.Body = withHead(head, response.Body)
	var answer struct {
		Code int `json:"code"`
	}
	err := json.NewDecoder(bytes.NewReader(head)).Decode(&answer)
	return answer.Code, err == nil || len(bytes.TrimSpace(head)) == 0
}
