package load

import (
	"fmt"
	"strings"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/discordsim/measured"
)

// mix lists the requests of a load to a Discord with measured limits, sent in turn. Their limits are token buckets,
// fixed windows, a bucket of one place that opens later than announced (reactions), or only the global limit.
var mix = [...]string{
	"POST /channels/$/messages",
	"GET /channels/$",
	"GET /users/@me",
	"PUT /guilds/$/members/900000000000000001/roles/900000000000000002",
	"GET /guilds/$/roles",
	"POST /channels/$/messages",
	"GET /channels/$/messages",
	"GET /channels/$",
	"PATCH /channels/$",
	"PUT /channels/$/messages/900000000000000001/reactions/a/@me",
}

// mixed makes a load of the mix to a Discord with measured limits. Each round is for the next channel or guild.
func (s *Scenario) mixed(requests, channels int) {
	s.server.Rules = measured.Rules(measured.Options{})
	s.offers, s.work = make([]offer, requests), nil
	works := make(map[string]int) // index in s.work, by operation and path
	for i := range s.offers {
		method, path, _ := strings.Cut(mix[i%len(mix)], " ")
		id := fmt.Sprint(900_000_000_000_000_000 + i/len(mix)%channels)
		s.offers[i] = offer{method: method, path: "/api/v10" + strings.ReplaceAll(path, "$", id)}
		bucket := method + s.offers[i].path
		n, ok := works[bucket]
		if !ok {
			n = len(s.work)
			works[bucket] = n
			s.work = append(s.work, discordsim.Work{Quota: s.quotaOf(s.offers[i]), Route: mix[i%len(mix)]})
		}
		s.work[n].Count++
	}
}

// quotaOf returns the limit of a request's bucket.
func (s *Scenario) quotaOf(o offer) discordsim.Quota {
	for i := range s.server.Rules {
		if rule := &s.server.Rules[i]; rule.Matches(o.method, o.path) {
			return rule.Quota
		}
	}
	return discordsim.Quota{}
}
