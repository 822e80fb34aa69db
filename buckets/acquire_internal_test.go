package buckets

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// Most requests are granted by a shorter path. Two managers get the same requests and the same responses, and one of them
// is never allowed to take it: they grant the same, and know the same.
func TestTheShortPathDoesWhatTheLongOneDoes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		clock := stillClock{clockwork.NewFakeClock()}
		options := []Option{
			WithClock(clock), WithPollPeriod(24 * time.Hour), WithLogger(nil), WithGlobalLimit(rapid.SampledFrom([]int{0, 1}).Draw(t, "global limit")),
			WithInvalidBudget(rapid.SampledFrom([]int{0, 4, 10_000}).Draw(t, "budget"), time.Minute, 0),
		}
		short, long := NewRESTBucketManager(options...), NewRESTBucketManager(options...)
		require.NoError(t, short.Start())
		require.NoError(t, long.Start())
		defer short.Close()
		defer long.Close()
		type pair struct {
			short, long  Lease
			first, again *Request
		}
		var inFlight []pair
		list := []routes.Route{routes.CreateMessage, routes.ListMessages, routes.CreateInteractionResponse, routes.GetGateway}
		prepared := map[string]*Prepared{}
		acquire := func(t *rapid.T, one, other *Request) {
			acquireShort := func() (Lease, error) { return short.AcquireRequest(noWait, one) }
			keepsPlace := one.arrived != 0 || rapid.Bool().Draw(t, "keeps its place")
			if !keepsPlace {
				name := one.Authorization + one.Route.Method() + one.Route.Path()
				if prepared[name] == nil {
					prepared[name] = short.Prepare(one.Route, one.Authorization)
				}
				acquireShort = func() (Lease, error) { return prepared[name].Acquire(noWait) }
			}
			a, errA := acquireShort()
			b, errB := long.acquire(noWait, other)
			if errB == nil && !keepsPlace {
				b.held.request = nil
			}
			require.Equal(t, errB == nil, errA == nil, "%v, %v", errA, errB)
			require.Equal(t, fmt.Sprint(errB), fmt.Sprint(errA))
			require.Equal(t, other.arrived, one.arrived)
			if errA == nil {
				require.Equal(t, b.held.arrived, a.held.arrived)
				inFlight = append(inFlight, pair{a, b, one, other})
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"acquire": func(t *rapid.T) {
				route := rapid.SampledFrom(list).Draw(t, "route")
				parameters := []string{strconv.Itoa(rapid.IntRange(1, 2).Draw(t, "id")), "aW50ZXJhY3Rpb246MQ"}
				compiled, err := route.Compile(parameters[:strings.Count(route.Template(), "{")]...)
				require.NoError(t, err)
				r := Request{Route: compiled, Authorization: rapid.SampledFrom([]string{"Bot a", "Bot b"}).Draw(t, "authorization")}
				other := r
				acquire(t, &r, &other)
			},
			"end": func(t *rapid.T) {
				if len(inFlight) == 0 {
					t.Skip("nothing is in flight")
				}
				i := rapid.IntRange(0, len(inFlight)-1).Draw(t, "which")
				p := inFlight[i]
				inFlight = slices.Delete(inFlight, i, i+1)
				switch rapid.SampledFrom([]string{"answered", "answered", "answered", "refused", "lost", "not sent"}).Draw(t, "end") {
				case "answered":
					r := anyResponse(t)
					p.short.Update(r)
					p.long.Update(r)
				case "refused":
					r := anyResponse(t)
					r.Status, r.HasRetryAfter, r.RetryAfter = 429, true, time.Second
					r.Class = ratelimits.Class(rapid.IntRange(1, ratelimits.NumClasses-2).Draw(t, "class"))
					if r.Class == ratelimits.ClassGlobal {
						r.Class = ratelimits.ClassUser // its wait has a random part
					}
					p.short.Update(r)
					p.long.Update(r)
					if rapid.Bool().Draw(t, "again") {
						acquire(t, p.first, p.again)
					}
				case "lost":
					p.short.Release()
					p.long.Release()
				case "not sent":
					p.short.Return()
					p.long.Return()
				}
			},
			"pass": func(t *rapid.T) {
				clock.Advance(time.Duration(rapid.IntRange(1, 3000).Draw(t, "milliseconds")) * time.Millisecond)
			},
			"": func(t *rapid.T) {
				require.Equal(t, known(long), known(short))
				require.Equal(t, long.Stats(), short.Stats())
			},
		})
		for _, p := range inFlight {
			p.short.Release()
			p.long.Release()
		}
	})
}

// stillClock calls nobody, so that everything happens on one goroutine.
type stillClock struct{ *clockwork.FakeClock }

func (c stillClock) AfterFunc(d time.Duration, _ func()) clockwork.Timer { return c.NewTimer(d) }

func anyResponse(t *rapid.T) ratelimits.Response {
	r := ratelimits.Response{Status: rapid.SampledFrom([]int{200, 204, 404, 403, 500}).Draw(t, "status")}
	if rapid.IntRange(0, 4).Draw(t, "limited") > 0 {
		r.Limited, r.Bucket = true, rapid.SampledFrom([]string{"h", "h", "h", "g"}).Draw(t, "hash")
		r.Limit = rapid.SampledFrom([]int{5, 5, 5, 3}).Draw(t, "limit")
		r.Remaining = rapid.IntRange(0, r.Limit-1).Draw(t, "remaining")
		r.ResetAfter = time.Duration(rapid.IntRange(1, 5000).Draw(t, "reset")) * time.Millisecond
	}
	return r
}

// known is what a manager knows of its buckets, in an order and with names that two managers share.
func known(m *RESTBucketManager) []BucketSnapshot {
	names := map[string]string{}
	for _, a := range []string{"Bot a", "Bot b"} {
		names["#"+strconv.FormatUint(m.digestOf(&Request{Authorization: a})&0xffffff, 16)] = a
	}
	all := slices.Collect(m.Buckets())
	for i := range all {
		all[i].Authentication = names[all[i].Authentication]
		if all[i].Major[0] == '#' || len(all[i].Major) > 2 {
			all[i].Major = all[i].Major[:1]
		}
	}
	slices.SortFunc(all, func(a, b BucketSnapshot) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return all
}
