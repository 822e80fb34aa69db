package httpclient

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/routes"
)

const codeUnknownWebhook = 10015

// CredentialKind is the kind of a credential.
type CredentialKind int

const (
	// CredentialAuthorization is the value of an Authorization header, such as a bot's token.
	CredentialAuthorization CredentialKind = iota
	// CredentialWebhook is the id and token of a webhook.
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

// CredentialError says that a request was not sent because Discord has refused the request's credential within the last
// ten minutes. For ten minutes after a refusal, a credential rests, which means that it is not used. An Authorization
// may rest on one route only, see Everywhere. Without rests, further requests would use up the IP address's budget of
// invalid requests, and Discord might revoke the token.
type CredentialError struct {
	// Route is the method and template of this request, without parameters.
	Route string
	// Kind is the kind of credential that was refused.
	Kind CredentialKind
	// Status is the status of the refusal: 401, or 404 for a deleted webhook.
	Status int
	// Everywhere says whether an Authorization rests for all requests, or only for the requests on this route with the
	// same channel, guild or webhook. It is always false for the other kinds of credentials.
	Everywhere bool
	// RetryAfter is how much longer the credential rests. See Transport.ResetCredential and Transport.LiftCredential.
	RetryAfter time.Duration
}

func (e *CredentialError) Error() string {
	where := ""
	if e.Kind == CredentialAuthorization && !e.Everywhere {
		where = " on this route"
	}
	return fmt.Sprintf("%s not sent: its %v was refused with %d%s; it is not used again for %v",
		e.Route, e.Kind, e.Status, where, e.RetryAfter.Round(time.Second))
}

// RestingCredential is a credential that the transport does not use for some time, because Discord has refused it. If
// an Authorization rests on several routes, or on one route for several channels, there is a RestingCredential for each
// route and channel.
type RestingCredential struct {
	Kind CredentialKind
	// Hash is a part of a keyed hash of the credential. It identifies the credential. If the limiter is a manager, the
	// Hash of an Authorization is equal to buckets.LimitSnapshot.Authentication.
	Hash string
	// Route is the method and template of the route on which an Authorization rests. It is "" if the Authorization rests
	// everywhere, or if the credential is a token in a path.
	Route string
	// Status is the status of the refusal: 401, or 404 for a deleted webhook.
	Status int
	// RetryAfter is how much longer the credential rests.
	RetryAfter time.Duration
}

// MarshalJSON encodes the kind by its name, and RetryAfter in seconds.
func (r RestingCredential) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Kind   string  `json:"kind"`
		Hash   string  `json:"hash"`
		Route  string  `json:"route"`
		Status int     `json:"status"`
		After  float64 `json:"retry_after_seconds"`
	}{r.Kind.String(), r.Hash, r.Route, r.Status, r.RetryAfter.Seconds()})
}

// mostResting bounds how many rests RestingCredentials returns.
const mostResting = 100

// RestingCredentials returns the current rests of credentials. Those that last longest come first. If there are more
// than a hundred rests, only the first hundred are returned.
func (t *Transport) RestingCredentials() []RestingCredential {
	return t.credentials.resting(mostResting)
}

// LiftCredential ends all rests of the credentials with the given RestingCredential.Hash. It returns the number of
// these credentials. Responses to requests that are in flight now do not make the credentials rest again.
func (t *Transport) LiftCredential(hash string) int { return t.credentials.lift(hash) }

// credential is the credential of one request.
type credential struct {
	*credentials
	ask *buckets.Request
	id  credentialID // zero if there is no credential, or the server is not Discord
}

// of returns the credential of a request: the token in its path if there is one, otherwise its Authorization.
func (c *credentials) of(ask *buckets.Request) credential {
	x := credential{credentials: c, ask: ask}
	switch r, major := ask.Route.Route(), ask.Route.Major(); {
	case ask.Server != "":
	case !r.TokenInPath():
		x.id = c.idOf(CredentialAuthorization, ask.Authorization)
	case r.GlobalExempt():
		x.id = c.idOf(CredentialInteraction, major.ID+":"+major.Token)
	default:
		x.id = c.idOf(CredentialWebhook, major.ID+":"+major.Token)
	}
	return x
}

// shown returns the credential's RestingCredential.Hash.
func (c *credential) shown() string {
	if c.id.kind == CredentialAuthorization && c.manager != nil {
		return c.manager.Authentication(c.ask.Authorization)
	}
	return "#" + strconv.FormatUint(c.id.hash&0xffffff, 16)
}

// unproven reports whether the request goes to Discord without a credential that has succeeded within provenFor.
func (c *credential) unproven() bool { return c.ask.Server == "" && !c.proven(c.id) }

// check returns a *CredentialError if the credential rests, nil otherwise.
func (c *credential) check() error {
	if c.id == (credentialID{}) {
		return nil
	}
	r, everywhere, left := c.rest(c.id, c.place())
	if left == 0 {
		return nil
	}
	route := c.ask.Route.Route().String()
	return &CredentialError{Route: route, Kind: c.id.kind, Status: r.status, Everywhere: everywhere, RetryAfter: left}
}

// untilStopped returns a context for a wait. Call endWait after the wait. The context ends when the request's context
// ends, or when the credential starts to rest for this request. In the latter case, context.Cause returns a
// *CredentialError.
func (c *credential) untilStopped(request context.Context) context.Context {
	if c.id == (credentialID{}) {
		return request
	}
	ctx, stop := context.WithCancelCause(request)
	c.waiting.Store(c, stop)
	if err := c.check(); err != nil { // the credential may have begun to rest before Store
		stop(err)
	}
	return ctx
}

// endWait ends the context that untilStopped returned.
func (c *credential) endWait() {
	if stop, ok := c.waiting.LoadAndDelete(c); ok {
		stop(nil)
	}
}

// whyStopped returns the reason why a wait returned err. It is a *CredentialError if that error ended the context of
// the wait, and err otherwise.
func whyStopped(waiting context.Context, err error) error {
	if stopped, ok := context.Cause(waiting).(*CredentialError); ok && err != nil {
		return stopped
	}
	return err
}

// answered records what a response says about the credential. It does not wait for the body: if the error code in the
// body decides, the refusal is recorded when the code has arrived.
func (c *credential) answered(response *http.Response, at time.Time) {
	if c.id == (credentialID{}) {
		return
	}
	sent, status := at.Sub(c.epoch), response.StatusCode
	refused := func() { c.refuse(c.id, c.shown(), c.place(), status, sent) }
	switch {
	case status/100 == 2 && c.proves():
		c.succeed(c.id, c.place(), sent)
	case status == http.StatusUnauthorized && cameByDiscord(response.Header):
		refused()
	case status == http.StatusUnauthorized:
		inspect(response, func(code int, ok bool) {
			if ok {
				refused()
			}
		})
	case status == http.StatusNotFound && c.id.kind == CredentialWebhook:
		inspect(response, func(code int, _ bool) {
			if code == codeUnknownWebhook {
				refused()
			}
		})
	}
}

// cameByDiscord reports whether the header shows that a response comes from Discord, whose proxy sets Via. Other
// proxies that set Via respond with HTML.
func cameByDiscord(header http.Header) bool {
	return header.Get("Via") != "" && !strings.Contains(strings.ToLower(header.Get("Content-Type")), "html")
}

// place returns the place (route and major parameter) in which the credential rests if this request is refused.
func (c *credential) place() place {
	if c.id.kind != CredentialAuthorization {
		return place{}
	}
	route := c.ask.Route.Route()
	switch route { // these routes have limits of their own, but need the same permissions
	case routes.DeleteYoungMessage, routes.DeleteOldMessage:
		route = routes.DeleteMessage
	}
	return place{route, maphash.String(c.seed, c.ask.Route.Major().ID)}
}

// public contains the routes that succeed without an Authorization.
var public = map[routes.Route]bool{
	routes.GetGateway: true, routes.ListVoiceRegions: true, routes.InviteResolve: true, routes.GetGuildTemplate: true,
	routes.ListStickerPacks: true, routes.GetStickerPack: true, routes.GetGuildWidget: true,
	routes.GetGuildWidgetPNG: true,
}

// proves reports whether a success of the request is remembered, because it proves that the request's credential is
// valid. A success of an interaction's token is not remembered, because such a token is used only for a few requests.
func (c *credential) proves() bool {
	r := c.ask.Route.Route()
	return c.id.kind == CredentialWebhook || c.id.kind == CredentialAuthorization && r.Name() != "" && !public[r]
}
