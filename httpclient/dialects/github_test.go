package dialects_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/dialects"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

const (
	exceeded  = `{"message":"API rate limit exceeded for user ID 1.","documentation_url":"https://docs.github.com/rest"}`
	secondary = `{"message":"You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}`
	abuse     = `{"message":"You have triggered an Abuse Detection mechanism."}`
	forbidden = `{"message":"Resource not accessible by integration","documentation_url":"https://docs.github.com/rest"}`
)

func TestGitHubTellsRefusalsFromOtherResponses(t *testing.T) {
	t.Parallel()
	type refusal struct {
		class ratelimits.Class
		wait  time.Duration
	}
	none := refusal{}
	for name, c := range map[string]struct {
		status     int
		remaining  string
		retryAfter string
		body       string
		want       refusal
	}{
		"success":                         {200, "7", "", "{}", none},
		"the last success":                {200, "0", "", "{}", none},
		"used up":                         {403, "0", "", exceeded, refusal{ratelimits.ClassUser, 11 * time.Second}},
		"used up, 429":                    {429, "0", "", exceeded, refusal{ratelimits.ClassUser, 11 * time.Second}},
		"used up, unread":                 {403, "0", "", "", refusal{ratelimits.ClassUser, 11 * time.Second}},
		"forbidden":                       {403, "7", "", forbidden, none},
		"forbidden, unread":               {403, "7", "", "", none},
		"forbidden at last":               {403, "0", "", forbidden, none},
		"secondary":                       {403, "7", "30", secondary, refusal{ratelimits.ClassGlobal, 30 * time.Second}},
		"secondary, 429":                  {429, "7", "30", secondary, refusal{ratelimits.ClassGlobal, 30 * time.Second}},
		"secondary, unread":               {403, "7", "30", "", refusal{ratelimits.ClassGlobal, 30 * time.Second}},
		"secondary, no time":              {403, "7", "", secondary, refusal{ratelimits.ClassGlobal, time.Minute}},
		"secondary, 429, no time, unread": {429, "7", "", "", refusal{ratelimits.ClassGlobal, time.Minute}},
		"abuse":                           {403, "7", "", abuse, refusal{ratelimits.ClassGlobal, time.Minute}},
		"no headers, 403":                 {403, "", "", forbidden, none},
		"not JSON":                        {403, "7", "", "<html>rate limit</html>", none},
		"unavailable":                     {503, "7", "30", "", none},
	} {
		header := http.Header{
			"X-Ratelimit-Resource": {"core"}, "X-Ratelimit-Limit": {"60"}, "X-Ratelimit-Reset": {"946684810"},
			"Date": {"Sat, 01 Jan 2000 00:00:00 GMT"},
		}
		if c.remaining != "" {
			header.Set("X-RateLimit-Remaining", c.remaining)
		}
		if c.retryAfter != "" {
			header.Set("Retry-After", c.retryAfter)
		}
		r := dialects.GitHub(c.status, header, []byte(c.body))
		assert.Equal(t, c.want.class, r.Class, name)
		if c.want.class != ratelimits.ClassOK {
			assert.Equal(t, c.want.wait, r.RetryAfter, name)
			assert.True(t, r.HasRetryAfter, name)
		}
		assert.Equal(t, "core", r.Bucket, name)
		assert.Equal(t, c.remaining != "", r.Limited, name)
		if r.Limited {
			assert.Equal(t, 11*time.Second, r.ResetAfter, "%s: the reset may have been rounded down", name)
			assert.Equal(t, 60, r.Limit, name)
		}
	}
}

func TestDialectsReadWhatHasNoHeader(t *testing.T) {
	t.Parallel()
	for _, dialect := range []httpclient.Dialect{dialects.GitHub, dialects.IETF} {
		assert.Equal(t, ratelimits.Response{Status: http.StatusOK}, dialect(http.StatusOK, nil, nil))
		assert.NotEqual(t, ratelimits.ClassOK, dialect(http.StatusTooManyRequests, nil, nil).Class)
	}
}

// gitHub returns a server with GitHub's headers. It counts requests to the resource search separately from those to the
// resource core.
func gitHub(quota discordsim.Quota) *server {
	return &server{
		quotas: []discordsim.Quota{quota},
		resource: func(path string) string {
			if strings.HasPrefix(path, "/search/") {
				return "search"
			}
			return "core"
		},
		answer: func(states []discordsim.State, isFull bool, header http.Header) (int, string) {
			s := states[0]
			header.Set("X-RateLimit-Limit", strconv.Itoa(s.Limit))
			header.Set("X-RateLimit-Remaining", strconv.Itoa(s.Remaining))
			header.Set("X-RateLimit-Used", strconv.Itoa(s.Limit-s.Remaining))
			header.Set("X-RateLimit-Reset", strconv.FormatInt(time.Now().Add(s.ResetAfter).Unix(), 10))
			if isFull {
				return http.StatusForbidden, exceeded
			}
			return http.StatusOK, "{}"
		},
	}
}

func TestGitHubRefusesNothing(t *testing.T) {
	t.Parallel()
	quotas := []discordsim.Quota{discordsim.Fixed(30, 10*time.Second), discordsim.Aligned(30, 10*time.Second, 0)}
	for n := range 32 {
		quota, paths, phase, dated := quotas[n%2], 1+n/2%2*2, n/4%4, n < 16
		name := fmt.Sprintf("aligned %v, %d paths, phase %d, dated %v", quota.Aligned, paths, phase, dated)
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Duration(phase) * 290 * time.Millisecond)
				s := gitHub(quota)
				s.undated = !dated
				transport, ideal := newTransport(t, s, dialects.GitHub), s.ideal(60)
				took := getMany(t, transport, 60, paths)
				assert.Zero(t, s.refused, "refused")
				assert.Less(t, took, ideal+2*time.Second+4*trip, "the reset is in whole seconds")
				t.Logf("%.3f of the ideal", ideal.Seconds()/took.Seconds())
			})
		})
	}
}

func TestGitHubWindowThatOthersHaveUsedUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := gitHub(discordsim.Fixed(30, 10*time.Second))
		other := newTransport(t, s, dialects.GitHub)
		getMany(t, other, 30, 1)
		transport, start := newTransport(t, s, dialects.GitHub), time.Now()
		getMany(t, transport, 30, 1)
		assert.Equal(t, 1, s.refused, "only the first request may be refused")
		assert.Less(t, time.Since(start), 13*time.Second)
	})
}

// intercept is a base transport that lets a function answer some requests instead of the server.
type intercept struct {
	below    *server
	answers  func(path string) (status int, body, retryAfter string)
	answered atomic.Int32
}

func (i *intercept) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := i.below.RoundTrip(r)
	if status, body, retryAfter := i.answers(r.URL.Path); status != 0 && err == nil {
		i.answered.Add(1)
		response.StatusCode, response.Body = status, http.NoBody
		if body != "" {
			response.Body = textBody(body)
		}
		if retryAfter != "" {
			response.Header.Set("Retry-After", retryAfter)
		}
	}
	return response, err
}

func TestGitHubSecondaryLimitsHoldTheCredential(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status           int
		body, retryAfter string
		wait             time.Duration
	}{
		"403, a message":      {http.StatusForbidden, secondary, "", time.Minute},
		"403, a time":         {http.StatusForbidden, secondary, "5", 5 * time.Second},
		"403, only a time":    {http.StatusForbidden, "", "5", 5 * time.Second},
		"429, nothing at all": {http.StatusTooManyRequests, "", "", time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				i := &intercept{below: gitHub(discordsim.Fixed(30, 10*time.Second))}
				i.answers = func(path string) (int, string, string) {
					if since := time.Since(start); 10*time.Second <= since && since < 10*time.Second+c.wait {
						return c.status, c.body, c.retryAfter
					}
					return 0, "", ""
				}
				transport := newTransport(t, i, dialects.GitHub)
				get(t, transport, "/search/issues")
				get(t, transport, "/items")
				time.Sleep(10*time.Second - time.Since(start))
				refused := make(chan struct{})
				go func() {
					defer close(refused)
					status, _ := get(t, transport, "/items")
					assert.Equal(t, http.StatusOK, status, "the refused request is sent again")
				}()
				time.Sleep(2 * trip)
				status, _ := get(t, transport, "/search/issues")
				assert.Equal(t, http.StatusOK, status)
				assert.GreaterOrEqual(t, time.Since(start), 10*time.Second+c.wait, "the other resource waits, too")
				<-refused
				assert.EqualValues(t, 1, i.answered.Load())
				assert.Less(t, time.Since(start), 10*time.Second+c.wait+time.Second)
			})
		})
	}
}

func TestGitHubPermissionErrorsAreReturnedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := &intercept{below: gitHub(discordsim.Fixed(3, time.Hour))}
		i.answers = func(string) (int, string, string) { return http.StatusForbidden, forbidden, "" }
		transport, start := newTransport(t, i, dialects.GitHub), time.Now()
		for range 3 { // the last one uses up the limit
			status, body := get(t, transport, "/items")
			assert.Equal(t, http.StatusForbidden, status)
			assert.Equal(t, forbidden, body)
		}
		assert.Equal(t, 3*trip, time.Since(start))
	})
}

func TestADateThatIsNoneCountsAsAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := dialects.GitHub(http.StatusOK, http.Header{
			"X-Ratelimit-Limit": {"60"}, "X-Ratelimit-Remaining": {"0"}, "Date": {"garbage"},
			"X-Ratelimit-Reset": {strconv.FormatInt(time.Now().Add(time.Minute).Unix(), 10)},
		}, nil)
		assert.True(t, r.Limited)
	})
}
