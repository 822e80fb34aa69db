package buckets_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/ratelimits"
)

func TestStatsCountWhatHappened(t *testing.T) {
	const budget = ratelimits.DefaultInvalidLimit - buckets.DefaultInvalidMargin
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxWaiting(2), buckets.WithEviction(time.Second, 0))
		assert.Equal(t, buckets.Stats{InvalidLimit: budget}, m.Stats())

		probe := ask(m, message(1))
		waiting := asks(m, message(1), 2)
		ask(m, message(1)) // the queue is full
		waiting[1].cancel()
		wait(0)
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		call(ctx, m, *request(message(1)))
		wait(3 * time.Second)
		probe.update(limited("messages", 5, 0, 10*time.Second))
		patient(m, time.Second)
		// This request is in a bucket of another credential.
		as(m, "Bot two", list(1)).update(refused(ratelimits.ClassShared, time.Second))
		s := m.Stats()
		assert.Equal(t, 1, s.Waiting)
		assert.Zero(t, s.InFlight)
		assert.Equal(t, 2, s.Routes)
		assert.Equal(t, 2, s.Authentications)

		wait(11 * time.Second)
		waiting[0].lease.Release()
		ask(m, callback(1)).lease.Return()
		ask(m, callback(2)).update(refused(ratelimits.ClassGlobal, time.Second))
		wait(time.Hour)
		s = m.Stats()
		assert.GreaterOrEqual(t, s.Evicted, uint64(4))
		s.Evicted = 0
		assert.Equal(t, buckets.Stats{
			Routes: 3, Authentications: 2,
			Granted: 5, Waited: 1, WaitTime: 13*time.Second + time.Millisecond,
			TooLong: 1, QueueFull: 1, Cancelled: 2, Lost: 1, InvalidLimit: budget,
			Responses: [ratelimits.NumClasses]uint64{
				ratelimits.ClassOK: 1, ratelimits.ClassShared: 1, ratelimits.ClassGlobal: 1,
			},
		}, s)
	})
}

func TestSnapshotOfABucket(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		as(m, "", message(7)).update(limited("messages", 5, 2, 10*time.Second))
		as(m, "", message(7))
		as(m, "", message(7)).update(inBucket(refused(ratelimits.ClassShared, 20*time.Second),
			"messages", 5, 1, 10*time.Second))
		as(m, "", message(7))
		b := snapshot(t, m, "messages")
		assert.Equal(t, buckets.LimitSnapshot{
			Class: ratelimits.ClassUser, Hash: "messages", Major: "7", Authentication: "-",
			Kind: b.Kind, Limit: 5, Period: 10 * time.Second, Remaining: b.Remaining,
			ResetAfter: b.ResetAfter, HoldAfter: 20*time.Second + time.Millisecond, InFlight: 1, Waiting: 1,
			Routes:   []string{"POST /channels/{channel_id}/messages"},
			WaitsFor: buckets.WaitsForShared, WaitAfter: 20*time.Second + time.Millisecond,
			HoldClass: ratelimits.ClassShared, PredictedWait: 20*time.Second + time.Millisecond, WaitUntil: b.WaitUntil,
		}, b)
		assert.WithinDuration(t, time.Now().Add(b.WaitAfter), b.WaitUntil, 0)
		assert.Equal(t, b.HoldAfter, b.ResetAfter, "nothing leaves before the hold has ended")
		assert.LessOrEqual(t, b.Remaining, 1)
		wait(5 * time.Second)
		assert.Equal(t, 15*time.Second+time.Millisecond, snapshot(t, m, "messages").HoldAfter)
	})
}

func TestIterationCanBeBrokenOff(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		for b := range m.Buckets() {
			t.Errorf("unexpected bucket: %+v", b)
		}
		for channel := range 200 {
			discover(t, m, message(1+channel), roomy)
		}
		seen := 0
		for range m.Buckets() {
			seen++
			if seen == 3 {
				break
			}
		}
		assert.Equal(t, 3, seen)
		majors := make(map[string]bool)
		for b := range m.Buckets() {
			majors[b.Major] = true
			discover(t, m, message(1+len(majors)%200), roomy) // works because no lock is held
		}
		assert.Len(t, majors, 201, "200 channels and the UNKNOWN bucket")
	})
}

func TestNumbersCanBeReadWhileEverythingMoves(t *testing.T) {
	t.Parallel()
	m := started(t, buckets.WithEviction(time.Millisecond, 0))
	var senders, readers sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				assert.LessOrEqual(t, m.Stats().InFlight, 8)
				assert.LessOrEqual(t, m.Status(5).Stats.InFlight, 8)
				for b := range m.Buckets() {
					assert.LessOrEqual(t, b.InFlight, 8)
				}
			}
		})
	}
	for i := range 8 {
		senders.Go(func() {
			for n := range 200 {
				lease, err := m.Acquire(background, message(1+(i+n)%5), bot)
				if !assert.NoError(t, err) {
					return
				}
				lease.Update(limited("messages", 1000, 999, time.Millisecond))
			}
		})
	}
	senders.Wait()
	close(stop)
	readers.Wait()
	s := m.Stats()
	require.Equal(t, uint64(1600), s.Granted)
	require.Equal(t, uint64(1600), s.Responses[ratelimits.ClassOK])
	drained(t, m)
}

func TestStatsAsJSONSayWhatTheyAre(t *testing.T) {
	t.Parallel()
	s := buckets.Stats{Granted: 7, WaitTime: 1500 * time.Millisecond, InvalidLimit: 9500}
	s.Responses[ratelimits.ClassSubLimit] = 3
	s.Shared = shared.Stats{
		Calls: map[string]shared.Calls{"swap": {Calls: 3, Errors: 1, Time: time.Millisecond}},
		Loans: 4, LoansTaken: 12, LoansReturned: 5, LoansExpired: 3, LoansRecalled: 2,
		Losses: 6, ClockSteps: 7, Suspensions: 8,
		Outage: time.Second, OutageClass: "unreachable", Outages: 9, OutageTime: 90 * time.Second,
		Quota: 10, QuotaNeed: 11,
	}
	text, err := json.Marshal(s)
	require.NoError(t, err)
	assert.JSONEq(t, `{
		"buckets": 0, "routes": 0, "authentications": 0, "waiting": 0, "in_flight": 0, "granted": 7, "waited": 0,
		"wait_seconds": 1.5, "too_long": 0, "queue_full": 0, "over_budget": 0, "superseded": 0, "cancelled": 0,
		"invalid": 0, "invalid_limit": 9500, "lost": 0, "evicted": 0, "declared_waiting": {},
		"responses": {"ok": 0, "user": 0, "shared": 0, "sub-limit": 3, "global": 0, "edge": 0},
		"shared": {
			"calls": {"swap": {"calls": 3, "errors": 1, "seconds": 0.001}},
			"loans": 4, "loans_taken": 12, "loans_returned": 5, "loans_expired": 3, "loans_recalled": 2,
			"losses": 6, "clock_steps": 7, "suspensions": 8,
			"outage_seconds": 1, "outage_class": "unreachable", "outages": 9, "outage_seconds_total": 90,
			"quota": 10, "quota_need": 11
		}
	}`, string(text))
}
