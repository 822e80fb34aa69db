package routes

import "strings"

// interactionPrefix is base64 of "interaction:". Client authors have observed that interaction tokens begin with this
// text, but Discord does not promise it.
const interactionPrefix = "aW50ZXJhY3Rpb246"

// followUps maps the webhook routes of the catalogue to their interaction variants. Requests to these routes are
// frequent, and a look-up is faster than the creation of a variant. Variants of other routes are created when they are
// needed.
var followUps = findFollowUps()

func findFollowUps() map[Route]Route {
	found := make(map[Route]Route)
	for _, route := range catalogue {
		if d := route.definition(); d.major == MajorWebhookToken && d.flags&GlobalExempt == 0 {
			found[route] = d.as(variantInteraction)
		}
	}
	return found
}

// forToken returns the variant of a webhook route for a token. Discord limits follow-ups to an interaction separately
// from requests that have a webhook's own token, although both have the same template.
func (r Route) forToken(token string) Route {
	if !strings.HasPrefix(token, interactionPrefix) {
		if d := r.definition(); d.variant == variantInteraction {
			return d.as(variantNone)
		}
		return r
	}
	if followUp, ok := followUps[r]; ok {
		return followUp
	}
	return r.definition().as(variantInteraction)
}
