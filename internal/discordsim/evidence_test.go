package discordsim

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestHeadersMayNameTheNextPlace(t *testing.T) {
	t.Parallel()
	w := messages(t, Rule{Quota: SlidingNext(2, time.Second)})
	tests := []struct {
		at                time.Duration
		remaining, resets string
		reset             string
		retry             any
	}{
		{0, "1", "1.000", "1893456001.000", nil},
		{300 * ms, "0", "0.700", "1893456001.000", nil},
		{400 * ms, "0", "0.600", "1893456001.000", 0.6},
		{1000 * ms, "0", "0.300", "1893456001.300", nil},
		{5000 * ms, "1", "1.000", "1893456006.000", nil},
	}
	for _, test := range tests {
		response := send(w, test.at, 1, post)[0]
		assert.Equal(t, test.remaining, response.Header.Get("X-RateLimit-Remaining"), test.at)
		assert.Equal(t, test.resets, response.Header.Get("X-RateLimit-Reset-After"), test.at)
		assert.Equal(t, test.reset, response.Header.Get("X-RateLimit-Reset"), test.at)
		assert.Equal(t, test.retry, body(t, response)["retry_after"], test.at)
	}
}

// drawWay draws how long a request or an answer travels. The result is never 0, because events at the same moment would
// have no order.
func drawWay(t *rapid.T) time.Duration {
	return time.Duration(rapid.IntRange(1, 200_000).Draw(t, "way")) * time.Microsecond
}

// The answers of a counter must never rule out the counter's own kind, even if other clients also use the counter.
func TestNoKindIsRuledOutByItsOwnAnswers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		quota := drawQuota(t).punctual()
		quota.Extend = 0
		counter, evidence := newCounter(quota), &evidence{}
		now := start
		for range rapid.IntRange(2, 60).Draw(t, "requests") {
			now = now.Add(time.Duration(rapid.IntRange(0, 300_000).Draw(t, "step")) * time.Microsecond)
			if rapid.IntRange(0, 3).Draw(t, "foreign") == 0 {
				counter.Take(now, Foreign)
			}
			if !counter.Take(now, Own) {
				continue
			}
			state := stated(counter, now)
			evidence.learn(reading{
				sent: now.Add(-drawWay(t)), read: now.Add(drawWay(t)), after: state.ResetAfter,
				spent: state.Limit - state.Remaining,
			})
		}
		switch {
		case quota.Kind == KindFixed:
			require.Zero(t, evidence.fixed)
		case quota.Kind == KindLeaky:
			require.Zero(t, evidence.leaky)
		case !quota.NamesNext:
			require.Zero(t, evidence.last)
		}
	})
}

// A client takes a sliding log for a fixed window until answers have shown that it is not one. From then on, the client
// counts each request for a whole period. This client must never be blamed.
func TestWhoeverBelievesInWindowsUntilToldOtherwiseIsNotToBlame(t *testing.T) {
	t.Parallel()
	refused := 0
	rapid.Check(t, func(t *rapid.T) {
		c := windowBeliever{t: t, now: start, limit: rapid.IntRange(1, 6).Draw(t, "limit")}
		c.period = time.Duration(rapid.IntRange(300, 3000).Draw(t, "period")) * ms
		rule := Rule{Path: "**", Quota: SlidingNext(c.limit, c.period)}
		world, err := NewWorld(start, Config{Default: &rule, Global: Unlimited()})
		require.NoError(t, err)
		c.world = world
		c.send(1)
		for range rapid.IntRange(1, 20).Draw(t, "batches") {
			c.now = c.now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "pause")) * ms)
			c.send(c.room())
		}
		require.Zero(t, world.Report().Avoidable.Total(), "%+v", world.Refusals())
		refused += world.Report().Refused.Total()
	})
	require.NotZero(t, refused, "the test needs refusals to judge")
}

// windowBeliever is a client that sends batches. It waits for all answers to one batch before it sends the next batch.
type windowBeliever struct {
	t      *rapid.T
	world  *World
	now    time.Time
	limit  int
	period time.Duration

	used       int         // requests in the window that the client believes in
	over       time.Time   // end of that window
	places     []time.Time // when the answers to accepted requests were read
	hold       time.Time   // end of the wait after a 429
	oneAtATime bool        // whether a 429 has made the next batch a single request
}

// room waits until at least one request may be sent, and returns how many to send.
func (c *windowBeliever) room() (n int) {
	c.now = latest(c.now, c.hold)
	if c.knows() {
		if len(c.places) >= c.limit {
			c.now = latest(c.now, c.places[len(c.places)-c.limit].Add(c.period))
		}
		n = c.limit
		for _, at := range c.places {
			if at.Add(c.period).After(c.now) {
				n--
			}
		}
	} else {
		if c.used >= c.limit {
			c.now = latest(c.now, c.over)
		}
		if !c.now.Before(c.over) {
			c.used = 0
		}
		n = c.limit - c.used
	}
	if c.oneAtATime {
		return 1
	}
	return rapid.IntRange(1, n).Draw(c.t, "batch")
}

func (c *windowBeliever) knows() bool {
	for _, b := range c.world.buckets {
		return b.evidence != nil && b.evidence.told(c.now.Add(1))
	}
	return false
}

func (c *windowBeliever) send(n int) {
	arrivals := make([]time.Time, n)
	for i := range arrivals {
		arrivals[i] = c.now.Add(drawWay(c.t))
	}
	slices.SortFunc(arrivals, time.Time.Compare)
	request := post
	request.SentAt, c.oneAtATime = c.now, false
	var over time.Time
	for _, arrival := range arrivals {
		response := c.world.Handle(arrival, request)
		read := arrival.Add(drawWay(c.t))
		c.world.Deliver(response, read)
		c.now = latest(c.now, read)
		if response.Class != ClassNone {
			wait, _ := statedRetry(response)
			c.hold, c.oneAtATime = latest(c.hold, read.Add(time.Duration(wait*float64(time.Second)))), true
			continue
		}
		after, _ := readNumber(response.Header.Get("X-RateLimit-Reset-After"))
		end := read.Add(time.Duration(after * float64(time.Second)))
		if over.IsZero() || end.Before(over) {
			over = end // all answers describe the same window
		}
		remaining, _ := readNumber(response.Header.Get("X-RateLimit-Remaining"))
		c.used = max(c.used+1, c.limit-int(remaining))
		c.places = append(c.places, read)
	}
	slices.SortFunc(c.places, time.Time.Compare)
	if !over.IsZero() {
		c.over = over
	}
}
