package buckets_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/routes"
)

// Of the windows of declared limits those are shown for which requests wait, the longest line first.
func TestStatusShowsTheDeclaredLimitsThatRequestsWaitFor(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour),
			buckets.WithLimit(buckets.ForRoute(routes.CreateMessage), 2, 10*time.Minute, buckets.PerMajor(), buckets.Named("two")),
			buckets.WithLimit(buckets.ForRoute(routes.ListMessages), 1, time.Minute, buckets.PerKey(func(r *buckets.Request) string { return "secret " + r.Group }),
				buckets.AcrossCredentials(), buckets.Named("one")),
			buckets.WithLimit(buckets.ForRoute(routes.GetMyUser), 1, time.Minute, buckets.Named("idle")))
		discover(t, m, message(1), plain(200))
		discover(t, m, list(1), plain(200))
		wait(time.Hour)
		none := m.Status(allOfThem)
		assert.Empty(t, none.Declared)
		assert.Equal(t, map[string]int{"two": 0, "one": 0, "idle": 0}, none.Stats.Declared)

		for channel := range 3 { // 1, 2 and 3 wait
			for range 2 + channel {
				ask(m, message(channel+1)).update(plain(200))
			}
		}
		callers := asks(m, message(1), 4)
		of := buckets.Request{Route: list(1), Authorization: bot, Group: "a"}
		for range 2 {
			callers = append(callers, call(context.Background(), m, of))
		}
		callers[4].update(plain(200))
		wait(15 * time.Second)

		s := m.Status(3)
		assert.Equal(t, 4, s.DeclaredTotal)
		assert.Equal(t, map[string]int{"two": 7, "one": 1, "idle": 0}, s.Stats.Declared)
		require.Len(t, s.Declared, 3)
		credential := s.Globals[0].Authentication
		first := s.Declared[0]
		assert.InDelta(t, (10*time.Minute - 15*time.Second).Seconds(), first.WaitAfter.Seconds(), .1)
		first.WaitAfter = 0
		assert.Equal(t, buckets.LimitSnapshot{
			Name: "two", Limit: 2, Period: 10 * time.Minute, Authentication: credential, Major: "1", Key: "-", InUse: 2, Waiting: 4,
		}, first)
		assert.Equal(t, []int{4, 2, 1}, []int{first.Waiting, s.Declared[1].Waiting, s.Declared[2].Waiting})
		assert.Equal(t, "3", s.Declared[1].Major)
		assert.Empty(t, m.Status(0).Declared)
		assert.Empty(t, m.Status(-1).Declared)
		last := m.Status(allOfThem).Declared[3]
		assert.Equal(t, []string{"one", "-", "-"}, []string{last.Name, last.Authentication, last.Major})
		assert.Regexp(t, "^#[0-9a-f]+$", last.Key)
		for b := range m.Buckets() {
			if b.Waiting > 0 {
				assert.Equal(t, buckets.WaitsForDeclared, b.WaitsFor)
				assert.Equal(t, map[bool]string{true: "one", false: "two"}[b.Routes[0] == routes.ListMessages.String()], b.Declared)
			}
		}

		text, err := json.Marshal(m.Status(1))
		require.NoError(t, err)
		var encoded struct{ Declared []map[string]any }
		require.NoError(t, json.Unmarshal(text, &encoded))
		for name, want := range map[string]any{
			"name": "two", "limit": 2., "period_seconds": 600., "server": "", "authentication": credential, "major": "1", "key": "-",
			"in_use": 2., "waiting": 4., "wait_seconds": 585.,
		} {
			assert.Equal(t, want, encoded.Declared[0][name], name)
		}
		assert.Contains(t, string(text), `"declared_total":4`)
		assert.Contains(t, string(text), `"declared_waiting":{"idle":0,"one":1,"two":7}`)
		assert.NotContains(t, string(text), "secret")

		for _, c := range callers {
			c.cancel()
		}
		synctest.Wait()
		s = m.Status(allOfThem)
		assert.Equal(t, 2, s.DeclaredTotal, "nobody waits for those of channel 1 and of group a any more")
		assert.Len(t, s.Declared, 2)
		require.NoError(t, m.Close())
		assert.Zero(t, m.Status(allOfThem).DeclaredTotal)
		assert.Equal(t, map[string]int{"two": 0, "one": 0, "idle": 0}, m.Stats().Declared)
	})
}
