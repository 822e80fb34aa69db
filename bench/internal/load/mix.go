package load

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/discordsim/measured"
)

// Preset returns the limits of discordtest.Discord, which were measured at Discord.
func Preset() []discordsim.Rule { return measured.Rules(measured.Options{}) }

// mix lists the requests of a load with the limits of the preset. They are sent in turn. Their limits are token
// buckets, fixed windows, a bucket of one place that opens later than announced (reactions), or only the global limit.
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

// mixed makes the scenario send the requests of mix, with the limits of the preset. Each round goes to the next channel
// or guild. Each time the load has sent a number of requests (life), it changes to other channels and guilds, so that a
// long load shows whether the client forgets the old ones. If life is 0, the load never changes.
func (s *Scenario) mixed(requests, channels, life int) {
	s.server.Rules = Preset()
	s.offers, s.work = make([]offer, requests), nil
	works := make(map[string]int) // index in s.work, by operation and path
	for i := range s.offers {
		method, path, _ := strings.Cut(mix[i%len(mix)], " ")
		n := i / len(mix) % channels
		if life > 0 {
			n += i / life * channels
		}
		s.offers[i] = offer{method: method, path: "/api/v10" + strings.ReplaceAll(path, "$", fmt.Sprint(firstChannel+n))}
		if life > 0 {
			continue // a long load has no ideal
		}
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

// kindTotals counts the requests to buckets of one kind.
type kindTotals struct {
	buckets, requests, refused, avoidable int
	limits                                map[string]bool
	known                                 map[string]int // buckets, by the kind that the client took them for
}

// kindName names the kind of a quota in the words of Discord's developers.
func kindName(q discordsim.Quota) string {
	switch {
	case q.Kind == discordsim.KindNone || q.Kind == discordsim.KindUnlimited:
		return "no limit"
	case q.Limit >= 1000 && q.Period <= time.Millisecond:
		return "only the global limit"
	case q.Lateness != discordsim.Lateness{}:
		return "fixed window, opens late"
	case q.Kind == discordsim.KindLeaky:
		return "token bucket"
	case q.Kind == discordsim.KindSliding:
		return "sliding log"
	}
	return "fixed window"
}

// kindsTable shows which kinds of buckets the load met, and which kinds the client took them for.
func kindsTable(seen []discordsim.BucketReport, known map[string]string) report.Table {
	kinds := make(map[string]*kindTotals)
	for _, b := range seen {
		name := kindName(b.Quota)
		if b.Evicted > 0 {
			name = "forgotten by the simulator"
		}
		k := kinds[name]
		if k == nil {
			k = &kindTotals{limits: make(map[string]bool), known: make(map[string]int)}
			kinds[name] = k
		}
		k.buckets += max(b.Evicted, 1)
		k.requests += b.Accepted + b.Failed + b.Refused.Total()
		k.refused, k.avoidable = k.refused+b.Refused.Total(), k.avoidable+b.Avoidable.Total()
		if b.Quota.Limit > 0 {
			k.limits[fmt.Sprintf("%d/%s", b.Quota.Limit, report.Setting(b.Quota.Period))] = true
		}
		k.known[cmp.Or(known[b.Hash+" "+b.Major], "forgotten")]++
	}
	t := report.Table{Title: "kinds of limits met", Key: "kinds", Columns: []report.Column{
		{Name: "kind", Key: "kind", Left: true}, {Name: "limits", Key: "limits", Left: true},
		{Name: "buckets", Key: "buckets"}, {Name: "requests", Key: "requests"}, {Name: "429s", Key: "refused"},
		{Name: "avoidable", Key: "avoidable"},
		{Name: "the client's view", Key: "known", Left: true,
			Note: "what the responses had proven about the buckets when the load ended"},
	}}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		k, views := kinds[name], []string(nil)
		for _, view := range slices.Sorted(maps.Keys(k.known)) {
			views = append(views, fmt.Sprintf("%d %s", k.known[view], view))
		}
		t.Rows = append(t.Rows, []report.Value{
			report.Text(name), report.Text(strings.Join(slices.Sorted(maps.Keys(k.limits)), ", ")), report.Count(k.buckets),
			report.Count(k.requests), report.Count(k.refused), report.Count(k.avoidable), report.Text(strings.Join(views, ", ")),
		})
	}
	return t
}
