package buckets_test

import (
	"context"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// The standard suite that any limiter should pass, after wumpy's: what two requests tell of a third one.

// counting is a server with fixed windows of two requests. It names a hash for each route, or none.
type counting struct {
	hashes map[string]string // by route; "": the route's own counter, and no hash in the headers
	used   map[string]int
}

// answer counts a request by hash and major parameter, and answers it in headers.
func (s *counting) answer(route routes.CompiledRoute) ratelimits.Response {
	hash := s.hashes[route.Route().String()]
	key := hash
	if hash == "" {
		key = route.Route().String()
	}
	key += " " + route.Major().ID + ":" + route.Major().Token
	s.used[key]++
	header := http.Header{}
	if hash != "" {
		header.Set("X-RateLimit-Bucket", hash)
	}
	header.Set("X-RateLimit-Limit", "2")
	header.Set("X-RateLimit-Remaining", strconv.Itoa(max(2-s.used[key], 0)))
	header.Set("X-RateLimit-Reset-After", "60.000")
	if s.used[key] > 2 {
		return ratelimits.ParseResponse(http.StatusTooManyRequests, header, []byte(`{"retry_after": 60}`))
	}
	return ratelimits.ParseResponse(http.StatusOK, header, nil)
}

// isLimited reports whether a request would have to wait now.
func isLimited(t *testing.T, m *buckets.RESTBucketManager, route routes.CompiledRoute) bool {
	t.Helper()
	lease, err := m.Acquire(buckets.ContextWithMaxWait(context.Background(), 0), route, bot)
	lease.Return()
	if err != nil {
		var tooLong *ratelimits.TooLongError
		require.ErrorAs(t, err, &tooLong)
	}
	return err != nil
}

// pairs are a first and a second request; the same endpoint or another one, with no major parameter or the same or
// another.
var pairs = []struct {
	name          string
	first, second routes.CompiledRoute
	sameRoute     bool
	sameMajor     bool
}{
	{"same endpoint, no major parameter", compile(routes.GetMyUser), compile(routes.GetMyUser), true, true},
	{"same endpoint, same major parameter", message(1), message(1), true, true},
	{"same endpoint, other major parameter", message(1), message(2), true, false},
	{"other endpoint, no major parameter", compile(routes.GetMyUser), compile(routes.ListVoiceRegions), false, true},
	{"other endpoint, same major parameter", message(1), list(1), false, true},
	{"other endpoint, other major parameter", message(1), list(2), false, false},
	{"other method, no major parameter", compile(routes.GetMyUser), compile(routes.UpdateMyUser), false, true},
}

func TestNothingIsKnownWithoutHeaders(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		for _, header := range []http.Header{nil, {}} {
			lease, err := m.Acquire(context.Background(), message(1), bot)
			require.NoError(t, err)
			lease.Update(ratelimits.ParseResponse(http.StatusOK, header, nil))
			lease.Release()
		}
		assert.False(t, isLimited(t, m, message(1)))
	})
}

func TestRoutesWithoutAHashAreLimitedByThemselves(t *testing.T) {
	t.Parallel()
	for _, pair := range pairs {
		subtest(t, pair.name, func(t *testing.T) {
			m := started(t)
			server := counting{used: map[string]int{}}
			discover(t, m, pair.first, server.answer(pair.first))
			discover(t, m, pair.second, server.answer(pair.second))
			assert.Equal(t, pair.sameRoute && pair.sameMajor, isLimited(t, m, pair.first))
			wait(61 * time.Second)
			assert.False(t, isLimited(t, m, pair.first), "not for ever")
		})
	}
}

func TestRoutesAreLimitedTogetherIfHashAndMajorAreTheSame(t *testing.T) {
	t.Parallel()
	for _, pair := range pairs {
		for _, sameHash := range []bool{true, false} {
			if pair.sameRoute && !sameHash {
				continue // one route has one hash
			}
			subtest(t, pair.name+map[bool]string{true: ", same hash", false: ", other hash"}[sameHash], func(t *testing.T) {
				m := started(t)
				server := counting{used: map[string]int{}, hashes: map[string]string{pair.first.Route().String(): "one"}}
				if !pair.sameRoute {
					server.hashes[pair.second.Route().String()] = map[bool]string{true: "one", false: "two"}[sameHash]
				}
				discover(t, m, pair.first, server.answer(pair.first))
				discover(t, m, pair.second, server.answer(pair.second))
				want := sameHash && pair.sameMajor
				assert.Equal(t, want, isLimited(t, m, pair.first))
				// The second request's bucket is the same one, or has one request left as well.
				assert.Equal(t, want, isLimited(t, m, pair.second))
				wait(61 * time.Second)
				assert.False(t, isLimited(t, m, pair.first))
			})
		}
	}
}

func TestExhaustedMethodDoesNotLimitAnother(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		discover(t, m, compile(routes.GetMyUser), limited("get me", 1, 0, time.Minute))
		assert.False(t, isLimited(t, m, compile(routes.UpdateMyUser)))
		assert.True(t, isLimited(t, m, compile(routes.GetMyUser)))
	})
}

// The suite goes on: what else may happen to the second of the two requests, and whether the third has to wait after
// it.
func TestThirdRequestAfterAnEventfulSecond(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		second  ratelimits.Response
		limited bool
		until   time.Duration
	}{
		{"server error, perhaps counted", plain(502), true, time.Minute},
		{"lost, perhaps counted", ratelimits.Response{}, true, time.Minute},
		{"refused: bucket", inBucket(refused(ratelimits.ClassUser, 5*time.Second), "one", 2, 0, 5*time.Second), true, time.Minute},
		{"refused: resource", inBucket(refused(ratelimits.ClassShared, 2*time.Minute), "one", 2, 1, time.Minute), true, 2 * time.Minute},
		{"refused: global", refused(ratelimits.ClassGlobal, 2*time.Minute), true, 2 * time.Minute},
		{"refused: edge", refused(ratelimits.ClassEdge, 2*time.Minute), true, 2 * time.Minute},
		{"refused: contents", inBucket(refused(ratelimits.ClassSubLimit, 2*time.Minute), "one", 2, 1, time.Minute), true, 2 * time.Minute},
	} {
		subtest(t, c.name, func(t *testing.T) {
			m := started(t)
			discover(t, m, message(1), limited("one", 2, 1, time.Minute))
			discover(t, m, message(1), c.second)
			assert.Equal(t, c.limited, isLimited(t, m, message(1)))
			wait(c.until + 3*time.Second)
			assert.False(t, isLimited(t, m, message(1)))
		})
	}
}
