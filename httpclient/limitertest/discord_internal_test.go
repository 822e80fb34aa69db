package limitertest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// The fake Discord must get all parts of a request by which it counts, and must apply the limits that a case changes.
func TestDiscordIsToldWhatItCountsBy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDiscord(discordsim.Unlimited())
		expect := func(status int, r *buckets.Request, why string) {
			t.Helper()
			assert.Equal(t, status, d.process(r).Status, why)
		}
		d.set(message(1), discordsim.Fixed(1, time.Second), "one")
		d.set(history(1), discordsim.Fixed(1, time.Second), "one")
		expect(200, request(message(1)), "the first request")
		expect(429, request(history(1)), "the same hash and major parameter")
		expect(200, request(message(2)), "another major parameter")
		expect(200, fromOther(message(1)), "another credential")
		time.Sleep(time.Second)
		expect(200, request(history(1)), "the next window")
		d.script(discordsim.Fault{Nth: []int{6},
			Refuse: &discordsim.Refusal{Class: discordsim.ClassSubLimit, Wait: time.Second}})
		expect(429, withFields(message(3), "content"), "scripted")
		expect(429, withFields(message(3), "content"), "the scripted hold is not over")
		d.set(message(3), discordsim.Quota{}, "")
		expect(200, withFields(message(3), "embeds"), "other fields")
		assert.Equal(t, tally{arrived: 8, accepted: 5, refused: 2}, d.tally(),
			"the scripted 429 does not count, but the 429 during its hold does")

		d.set(rename(1), discordsim.Fixed(2, time.Second), "")
		header := d.process(request(rename(1))).Header
		assert.Equal(t, []string{"", "1"}, []string{header.Get("X-RateLimit-Bucket"), header.Get("X-RateLimit-Remaining")},
			"a route without a hash")
	})
}
