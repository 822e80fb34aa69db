package ratelimits_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// trip is how long a request travels to the server, and its response back.
type trip struct{ there, back time.Duration }

// travel draws trips, one for each request.
type travel func() trip

// steady draws round trips that always take the same time, half of it in each direction.
func steady(roundTrip time.Duration) travel {
	return func() trip { return trip{roundTrip / 2, roundTrip - roundTrip/2} }
}

// between draws the time of each direction separately, between shortest and longest. The same seed always gives the
// same sequence.
func between(seed uint64, shortest, longest time.Duration) travel {
	chance := rand.New(rand.NewPCG(seed, 7))
	way := func() time.Duration { return shortest + time.Duration(chance.Int64N(int64(longest-shortest))) }
	return func() trip { return trip{way(), way()} }
}

// message is the request that these tests send.
var message = discordsim.Request{Method: "POST", Path: "/channels/1/messages"}

// served is a Window whose requests go to the simulated Discord, in virtual time.
type served struct {
	ratelimits.Window
	*ratelimits.Stage
}

func serve(t testing.TB, rule discordsim.Rule, travel travel) *served {
	t.Helper()
	return serveConfig(t, discordsim.Config{Rules: []discordsim.Rule{rule}}, travel)
}

func serveConfig(t testing.TB, config discordsim.Config, travel travel) *served {
	t.Helper()
	s := &served{}
	s.Stage = ratelimits.NewStage(t, config, &s.Window, func(f *ratelimits.Flight) {
		way := travel()
		f.There, f.Back = way.there, way.back
	})
	return s
}

func always(quota discordsim.Quota) discordsim.Rule {
	return discordsim.Rule{Path: "**", Quota: quota}
}

// rulesOfEveryKind returns one rule for each kind of bucket, all with the same limit.
func rulesOfEveryKind(limit int, period time.Duration) map[string]discordsim.Rule {
	return map[string]discordsim.Rule{
		"fixed":       always(discordsim.Fixed(limit, period)),
		"aligned":     always(discordsim.Aligned(limit, period, period/3)),
		"sliding log": always(discordsim.Sliding(limit, period)),
		"leaky":       always(discordsim.Leaky(limit, period)),
	}
}
