package limitertest

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// The fake Discord must get all parts of a request that it counts by, and the limits that a case has changed.
func TestDiscordIsToldWhatItCountsBy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDiscord(discordsim.Unlimited())
		d.set(message(1), discordsim.Fixed(1, time.Second), "one")
		d.set(history(1), discordsim.Fixed(1, time.Second), "one")
		assert.Equal(t, http.StatusOK, d.process(request(message(1))).Status)
		assert.Equal(t, http.StatusTooManyRequests, d.process(request(history(1))).Status,
			"the same hash and major parameter")
		assert.Equal(t, http.StatusOK, d.process(request(message(2))).Status, "another major parameter")
		foreign := request(message(1))
		foreign.Authorization = other
		assert.Equal(t, http.StatusOK, d.process(foreign).Status, "another credential")
		time.Sleep(time.Second)
		assert.Equal(t, http.StatusOK, d.process(request(history(1))).Status, "the next window")
		d.script(discordsim.Fault{Nth: []int{6},
			Refuse: &discordsim.Refusal{Class: discordsim.ClassSubLimit, Wait: time.Second}})
		for _, want := range []int{http.StatusTooManyRequests, http.StatusTooManyRequests} {
			assert.Equal(t, want, d.process(withFields(message(3), "content")).Status, "scripted, and not over")
		}
		d.set(message(3), discordsim.Quota{}, "")
		assert.Equal(t, http.StatusOK, d.process(withFields(message(3), "embeds")).Status, "other fields")
		assert.Equal(t, tally{arrived: 8, accepted: 5, refused: 2}, d.tally(),
			"the first scripted 429 does not count, those during its hold do")
	})
}

func TestRouteWithoutAHashIsDescribedWithoutOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDiscord(discordsim.Unlimited())
		d.set(message(1), discordsim.Fixed(2, time.Second), "")
		header := d.process(request(message(1))).Header
		assert.Equal(t, []string{"", "1"}, []string{header.Get("X-RateLimit-Bucket"), header.Get("X-RateLimit-Remaining")})
	})
}
