package limitertest

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
)

// The three kinds differ in when places come back, and in nothing else.
func TestCountersGivePlacesBackInTheirOwnWay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind         kind
		reset, retry time.Duration // after two of two, half a second apart
		remaining    []int         // at 1 s, 1.5 s and 2 s after the first
	}{
		{fixed, 500 * time.Millisecond, 500 * time.Millisecond, []int{2, 2, 2}},
		{sliding, time.Second, 500 * time.Millisecond, []int{1, 2, 2}},
		{leaky, 500 * time.Millisecond, 0, []int{2, 2, 2}},
	} {
		t.Run(string(c.kind), func(t *testing.T) {
			t.Parallel()
			counter := counter{quota: quota{c.kind, 2, time.Second}}
			start := time.Now()
			at := func(d time.Duration) time.Time { return start.Add(d) }
			require.True(t, counter.take(start))
			require.True(t, counter.take(at(500*time.Millisecond)))
			assert.Equal(t, c.reset, counter.resetAfter(at(500*time.Millisecond)))
			assert.Equal(t, c.retry, counter.retryAfter(at(500*time.Millisecond)))
			for i, remaining := range c.remaining {
				assert.Equal(t, remaining, counter.remaining(at(time.Second+time.Duration(i)*500*time.Millisecond)))
			}
		})
	}
}

func TestCountersRefuseWhatExceedsThem(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		counter := counter{quota: quota{kind, 3, time.Second}}
		now := time.Now()
		for range 3 {
			assert.True(t, counter.take(now), kind)
		}
		assert.False(t, counter.take(now), kind)
		wait := counter.retryAfter(now)
		assert.False(t, counter.take(now.Add(wait-1)), kind)
		assert.True(t, counter.take(now.Add(wait)), kind)
	}
}

func TestAnswersAreOfTheClassThatTheyStandFor(t *testing.T) {
	t.Parallel()
	for _, k := range refusedKinds {
		want := map[string]ratelimits.Class{
			"bucket": ratelimits.ClassUser, "resource": ratelimits.ClassShared, "fields": ratelimits.ClassSubLimit,
			"credential": ratelimits.ClassGlobal, "address": ratelimits.ClassEdge,
		}[k.name]
		r := k.answer(k.wait)
		assert.Equal(t, want, r.Class)
		assert.Equal(t, k.wait, r.RetryAfter)
	}
}

func TestServerCountsByHashMajorParameterAndCredential(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDiscord()
		d.set(request(message(1)), rule{quota{fixed, 1, time.Second}, "one"})
		d.set(request(history(1)), rule{quota{fixed, 1, time.Second}, "one"})
		status := func(a answer, _ time.Duration, _ bool) int { return a.status }
		assert.Equal(t, http.StatusOK, status(d.process(request(message(1)))))
		assert.Equal(t, http.StatusTooManyRequests, status(d.process(request(history(1)))), "the same hash and major parameter")
		assert.Equal(t, http.StatusOK, status(d.process(request(message(2)))), "another major parameter")
		foreign := request(message(1))
		foreign.Authorization = other
		assert.Equal(t, http.StatusOK, status(d.process(foreign)), "another credential")
		time.Sleep(time.Second)
		assert.Equal(t, http.StatusOK, status(d.process(request(history(1)))), "the next window")
		assert.Equal(t, tally{arrived: 5, accepted: 4, refused: 1}, d.tally())
	})
}
