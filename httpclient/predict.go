package httpclient

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient/internal/drain"
	"github.com/ratelight/ratelight/httpclient/internal/message"
	"github.com/ratelight/ratelight/httpclient/internal/wait"
)

// Prediction is the result of Transport.Predict. It contains no token.
type Prediction struct {
	// Route is the method and template. It is empty if the request's host is not limited, or if Err says that the request
	// has no valid route or that the transport cannot be used.
	Route string
	// Wait is how long the request would wait. It is 0 if the request would be sent at once, or if the wait cannot be
	// predicted.
	Wait time.Duration
	// Reason is what the request would wait for, buckets.WaitsForNothing if it would be sent at once.
	Reason buckets.WaitsFor
	// Err is the error with which the request would be rejected at once, nil if it would not be rejected. Unlike the error
	// of a real request, a *ratelimits.TooLongError in Err does not name the limit.
	Err error
	// Hint says what may be wrong with the request or why there is no prediction. It is empty if nothing is wrong.
	Hint string
}

var errNoURL = errors.New("httpclient: the request has no URL")

// Predict returns how long the request would wait if it were made now, and why, without sending it. The prediction
// takes all waiting requests into account. But a request with priority that arrives later may be sent before the
// predicted request. Predict applies the max rate limit, and the max wait and deadline of the request's context. It
// does not apply the bounds on the lengths of queues.
//
// Predict neither changes the request nor closes its body. It takes limits on fields of the body into account only if
// the request has a GetBody. If GetBody returns a body that is not in memory, Predict may block for a few tenths of a
// second. Otherwise Predict does not block. With a limiter of WithLimiter there is a prediction only if the limiter has
// a method like Predict of buckets.RESTBucketManager.
func (t *Transport) Predict(request *http.Request) Prediction {
	if t.invalid != nil {
		return Prediction{Err: t.invalid}
	}
	if request.URL == nil {
		return Prediction{Err: errNoURL}
	}
	server, limited := t.hosts.find(request.URL)
	if !limited {
		return Prediction{Hint: "the host is not one that this transport limits"}
	}
	route, _, err := t.examine(request)
	if err == nil && t.requests.IsShut() {
		err = drain.ErrShuttingDown
	}
	if err != nil {
		return Prediction{Err: err}
	}
	x := &roundTrip{Transport: t, request: request}
	x.ask = buckets.Request{
		Server: server, Route: route, Authorization: message.HeaderValue(request.Header, "Authorization"),
		Group: buckets.OptionsOf(request.Context()).Group, Supersedes: supersedes(request.Context(), route),
	}
	if request.Body != nil && request.Body != http.NoBody {
		x.body.get, x.ask.Fields = request.GetBody, x.fields
	}
	x.prepare()
	p := Prediction{Route: x.route(), Hint: x.hint()}
	if p.Err = x.credential.check(); p.Err != nil {
		return p
	}
	limiter, ok := t.limiter.(interface {
		Predict(*buckets.Request) (time.Duration, buckets.WaitsFor, error)
	})
	if !ok {
		p.Hint = "the limiter of this transport predicts nothing"
		return p
	}
	x.ask.Unproven = x.credential.unproven()
	if p.Wait, p.Reason, p.Err = limiter.Predict(&x.ask); p.Err == nil {
		p.Err = wait.Check(request.Context(), route, p.Wait, x.maxRateLimit())
	}
	return p
}

// hint says what may be wrong with the request's Authorization. It is "" if no problem is known.
func (x *roundTrip) hint() string {
	authorization := x.ask.Authorization
	if x.ask.Server == "" && authorization != "" && !strings.Contains(authorization, " ") {
		return `the Authorization has no scheme: Discord expects "Bot " before the token of a bot`
	}
	return ""
}

// String returns the prediction as a sentence.
func (p Prediction) String() string {
	var text string
	switch {
	case p.Err != nil:
		text = "would be rejected: " + p.Err.Error()
	case p.Route == "":
		text = "would be sent at once"
	case p.Reason == buckets.WaitsForNothing:
		text = "would be sent at once, as far as is known"
	case p.Wait == 0:
		text = "would wait for an unknown time: " + reasonText(p.Reason)
	default:
		text = fmt.Sprintf("would wait %v: %s", p.Wait.Round(time.Millisecond), reasonText(p.Reason))
	}
	if p.Hint != "" {
		text += "; " + p.Hint
	}
	subject := p.Route
	if subject == "" {
		subject = "the request"
	}
	return subject + " " + text
}

func reasonText(reason buckets.WaitsFor) string {
	switch reason {
	case buckets.WaitsForWindow:
		return "its bucket is used up, or held after a 429"
	case buckets.WaitsForSubLimit:
		return "a hidden limit on fields of the body holds it after a 429"
	case buckets.WaitsForShared:
		return "the limit that all users of the channel or guild share is used up"
	case buckets.WaitsForDeclared:
		return "a declared limit is used up"
	case buckets.WaitsForGlobal:
		return "the global limit of the credential is used up, or held after a 429"
	case buckets.WaitsForEdge:
		return "the network in front of Discord has refused this address"
	case buckets.WaitsForProbe:
		return "an earlier request has no response yet"
	case buckets.WaitsForOrdered:
		return "requests of its bucket are sent one at a time, and one is in flight"
	case buckets.WaitsForOutage:
		return "the other processes that share the limits have not answered yet, or cannot be reached"
	}
	return string(reason)
}
