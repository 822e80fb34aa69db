package soak

import (
	"strings"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// weather is what a round is like.
type weather struct {
	storm bool
	// revoked: the token of a bot stops being valid, and is replaced a while later.
	revoked bool
	// forbidden: a permission is lost for a while, and more answers are 403 than the budget has room for.
	forbidden bool
}

func weatherOf(round, rounds int) weather {
	switch {
	case round == rounds-1 || round%4 == 3:
		return weather{}
	case round%4 == 1:
		return weather{storm: true, revoked: true}
	}
	return weather{storm: true, forbidden: round%4 == 2}
}

func (w weather) String() string {
	switch {
	case w.revoked:
		return "storm, token revoked"
	case w.forbidden:
		return "storm, permission lost"
	case w.storm:
		return "storm"
	}
	return "calm"
}

// The parts of a round in which something is the matter.
const (
	revokedAt, replacedAt       = 0.30, 0.45
	forbiddenFrom, forbiddenEnd = 0.10, 0.40
)

// part returns a moment of a round.
func part(of time.Duration, fraction float64) time.Duration {
	return time.Duration(float64(of) * fraction)
}

// lasting are faults that are no whim of the server's: what is gone, forbidden or not valid, in every round.
func (d *discord) lasting() []discordsim.Fault {
	return []discordsim.Fault{
		{Status: 401, Body: `{"message": "401: Unauthorized", "code": 0}`, When: func(c discordsim.Call) bool {
			_, dead := d.dead.Load(c.Request.Authorization)
			return dead && !strings.Contains(c.Operation, "{token}")
		}},
		{Status: 404, Body: `{"message": "Unknown Webhook", "code": 10015}`, When: ofWebhook(7)},
		{Status: 401, Body: `{"message": "Invalid Webhook Token", "code": 50027}`, When: ofWebhook(8)},
		{Status: 401, Body: `{"message": "Invalid Webhook Token", "code": 50027}`, When: func(c discordsim.Call) bool {
			return strings.Contains(c.Request.Path, "/webhooks/") && strings.Contains(c.Request.Path, expiredToken)
		}},
		{Status: 403, Body: `{"message": "Missing Access", "code": 50001}`, When: func(c discordsim.Call) bool {
			return strings.Contains(c.Operation, "/guilds/{id}") && strings.HasSuffix(c.Major, "9")
		}},
		{Status: 404, Body: `{"message": "Unknown Message", "code": 10008}`, Every: 40, When: func(c discordsim.Call) bool {
			return strings.Contains(c.Operation, "/messages/{id}")
		}},
	}
}

// expiredToken is the beginning of what the simulator takes for the token of an interaction that is over.
const expiredToken = interactionPrefix + "Expired"

// ofWebhook chooses the webhooks whose ids end in a digit.
func ofWebhook(digit byte) func(discordsim.Call) bool {
	return func(c discordsim.Call) bool {
		id, _, _ := strings.Cut(c.Major, ":")
		return strings.Contains(c.Operation, "/webhooks/{id}/{token}") && !strings.Contains(c.Request.Path, interactionPrefix) &&
			id != "" && id[len(id)-1] == '0'+digit
	}
}

// permissionLost answers 403 to whatever is about channels, for a while.
func (d *discord) permissionLost() discordsim.Fault {
	return discordsim.Fault{
		Status: 403, Body: `{"message": "Missing Permissions", "code": 50013}`,
		From: part(d.length, forbiddenFrom), Until: part(d.length, forbiddenEnd),
		When: func(c discordsim.Call) bool { return strings.Contains(c.Operation, "/channels/{id}") },
	}
}

// whims are what goes wrong by chance in a storm: about one request in ten.
func whims() []discordsim.Fault {
	chance := func(p float64, f discordsim.Fault) discordsim.Fault {
		f.Probability = p
		return f
	}
	faults := []discordsim.Fault{
		chance(0.008, discordsim.Fault{Status: 502, Uncounted: true}),
		chance(0.006, discordsim.Fault{Status: 500}),
		chance(0.004, discordsim.Fault{Status: 503, Set: map[string]string{"Retry-After": "2"}}),
		chance(0.003, discordsim.Fault{Status: 520, Uncounted: true, Body: "<html>origin error</html>"}),
		chance(0.006, discordsim.Fault{Connection: discordsim.ConnectionLostBefore}),
		chance(0.006, discordsim.Fault{Connection: discordsim.ConnectionLostAfter}),
		chance(0.003, discordsim.Fault{Delay: 20 * time.Second}), // beyond the timeout of an attempt
		chance(0.002, discordsim.Fault{BodyDelay: 20 * time.Second}),
		chance(0.010, discordsim.Fault{Delay: 2 * time.Second}),
		chance(0.010, discordsim.NoHeaders()),
		chance(0.003, discordsim.Fault{State: func(s discordsim.State) discordsim.State {
			s.Remaining, s.ResetAfter = s.Limit, s.ResetAfter/3
			return s
		}}),
		chance(0.050, discordsim.Fault{Edit: garbleRefusal}),
	}
	for _, text := range []string{"NaN", "", "-1", "1e400", "soon", "99999999999999999999"} {
		faults = append(faults, chance(0.002, discordsim.Garbage(text)))
	}
	return faults
}

// garbleRefusal makes a 429 unreadable, headers and all for some.
func garbleRefusal(c discordsim.Call, response *discordsim.Response) {
	if response.Status != 429 {
		return
	}
	response.Body = []byte(`{"message": "You are being rate limited.", "retry_after": tomorrow`)
	if c.N%3 == 0 {
		response.Header.Del("Retry-After")
	}
}

// bans are those of the edge in a storm: one that says for how long, and one that does not.
func bans(length time.Duration) []discordsim.EdgeBan {
	second := func(at float64, d time.Duration, page discordsim.Page, silent bool) discordsim.EdgeBan {
		return discordsim.EdgeBan{From: part(length, at), Until: part(length, at) + min(d, length/20), Page: page, Silent: silent}
	}
	return []discordsim.EdgeBan{
		second(0.55, 4*time.Second, discordsim.PageHTML, false),
		second(0.65, 3*time.Second, discordsim.PageJSON, true),
	}
}
