package routes

import "strings"

// Interaction tokens are base64 of "interaction:" and more. Observed by client authors; Discord does not promise it.
const interactionPrefix = "aW50ZXJhY3Rpb246"

// followUps are the interaction variants of the catalogue's webhook routes. They could be made on demand like those of
// other routes, but follow-ups are many and a look-up is faster.
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

// forToken picks the variant of a webhook route by the token: Discord counts and exempts follow-ups to an interaction
// apart from what webhooks do, on the same template.
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
