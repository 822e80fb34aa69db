package dialects_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/httpclient/dialects"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

func TestIETFReadsAllVersionsOfTheDraft(t *testing.T) {
	t.Parallel()
	const (
		one  = `"a";q=100;w=60`
		two  = `"a";q=10;w=2,"b";q=25;w=10`
		keys = `"a";q=9;w=5;pk=:eA==:,"a";q=8;w=5;pk=:eQ==:`
	)
	type limit struct {
		bucket           string
		limit, remaining int
		after, rounding  int // in seconds
	}
	none := limit{}
	for name, c := range map[string]struct {
		policies, limits string
		older            string // the value of RateLimit-Limit; 3 requests remain, and the reset is in 2 s
		want             limit
	}{
		"one policy":               {one, `"a";r=20;t=12`, "", limit{`"a"`, 100, 20, 13, 2}},
		"a whole window":           {one, `"a";r=99;t=60`, "", limit{`"a"`, 100, 99, 60, 1}},
		"no time left":             {one, `"a";r=20;t=0`, "", limit{`"a"`, 100, 20, 1, 1}},
		"longer than the window":   {one, `"a";r=20;t=90`, "", limit{`"a"`, 100, 20, 90, 1}},
		"no window":                {`"a";q=100`, `"a";r=20;t=12`, "", limit{`"a"`, 100, 20, 13, 2}},
		"no time":                  {one, `"a";r=20`, "", limit{`"a"`, 100, 20, 60, 1}},
		"more left than allowed":   {one, `"a";r=200;t=12`, "", limit{`"a"`, 100, 100, 13, 2}},
		"partition keys":           {keys, `"a";r=3;t=5;pk=:eQ==:`, "", limit{`"a":eA==:"a":eQ==:`, 8, 3, 5, 1}},
		"comments and spaces":      {`"a" ; q=100 ;w=60; x="q=1,"`, ` "a"; r=20;t=12;y`, "", limit{`"a"`, 100, 20, 13, 2}},
		"separators in the name":   {`"a,\";b";q=100;w=60`, `"a,\";b";r=20;t=12`, "", limit{`"a,\";b"`, 100, 20, 13, 2}},
		"the shorter one urgent":   {two, `"a";r=3;t=2,"b";r=18;t=10`, "", limit{`"a""b"`, 10, 3, 2, 1}},
		"the longer one soon":      {two, `"a";r=3;t=2,"b";r=8;t=9`, "", limit{`"a""b"`, 8, 1, 2, 1}},
		"the longer one urgent":    {two, `"a";r=5;t=2,"b";r=0;t=6`, "", limit{`"a""b"`, 10, 0, 7, 2}},
		"both used up":             {two, `"a";r=0;t=2,"b";r=0;t=6`, "", limit{`"a""b"`, 10, 0, 7, 2}},
		"a policy without a limit": {two, `"b";r=20;t=10`, "", limit{`"a""b"`, 25, 20, 10, 1}},
		"bytes":                    {two + `;qu="content-bytes"`, `"a";r=5;t=2,"b";r=0`, "", limit{`"a""b"`, 10, 5, 2, 1}},
		"version 7":                {"10;w=2", "limit=10, remaining=3, reset=2", "", limit{"10", 10, 3, 2, 1}},
		"version 6":                {"10;w=2", "", "10", limit{"10", 10, 3, 2, 1}},
		"version 2":                {"", "", "10, 10;w=2", limit{"10", 10, 3, 2, 1}},
		"version 2, no policy":     {"", "", "10", limit{"10", 10, 3, 3, 2}},
		"no quota":                 {"", `"a";r=20;t=12`, "", none},
		"no remaining":             {one, `"a";t=12`, "", none},
		"a quota of 0":             {`"a";q=0;w=60`, `"a";r=0;t=12`, "", none},
		"neither window nor time":  {`"a";q=100`, `"a";r=20`, "", none},
		"negative":                 {`"a";q=-1;w=60`, `"a";r=20;t=12`, "", none},
		"garbage":                  {`;;,"`, `"\`, "", none},
	} {
		header := http.Header{"X-Ratelimit-Limit": {"5"}, "X-Ratelimit-Remaining": {"1"}, "X-Ratelimit-Reset-After": {"3"}}
		header.Set("RateLimit-Policy", c.policies)
		header.Set("RateLimit", c.limits)
		if c.older != "" {
			header.Set("RateLimit-Limit", c.older)
			header.Set("RateLimit-Remaining", "3")
			header.Set("RateLimit-Reset", "2")
		}
		assert.Equal(t, ratelimits.Response{
			Status: http.StatusOK, Bucket: c.want.bucket,
			Limited: c.want != none, Limit: c.want.limit, Remaining: c.want.remaining,
			ResetAfter: time.Duration(c.want.after) * time.Second, ResetRounding: time.Duration(c.want.rounding) * time.Second,
		}, dialects.IETF(http.StatusOK, header, nil), name)
	}
}

func TestIETFWaitsAsA429Says(t *testing.T) {
	t.Parallel()
	policy, limit := http.Header{"Ratelimit-Policy": {`"a";q=10;w=60`}}, []string{`"a";r=0;t=12`}
	r := dialects.IETF(http.StatusTooManyRequests, http.Header{"Retry-After": {"7"}}, []byte("{}"))
	assert.Equal(t, ratelimits.Response{
		Status: http.StatusTooManyRequests, Class: ratelimits.ClassUser, HasRetryAfter: true, RetryAfter: 7 * time.Second,
	}, r)
	policy["Ratelimit"] = limit
	r = dialects.IETF(http.StatusTooManyRequests, policy, nil)
	assert.Equal(t, 13*time.Second, r.RetryAfter, "the wait lasts until the reset")
	assert.True(t, r.HasRetryAfter)
	assert.Equal(t, ratelimits.ClassUser, r.Class)
	policy["Retry-After"] = []string{"20"}
	assert.Equal(t, 20*time.Second, dialects.IETF(http.StatusTooManyRequests, policy, nil).RetryAfter)
	r = dialects.IETF(http.StatusServiceUnavailable, policy, nil)
	assert.Equal(t, ratelimits.ClassOK, r.Class)
	assert.Equal(t, 20*time.Second, r.RetryAfter)
}

// speakIETF returns a server that sends the headers of the current draft. round rounds the seconds until a reset.
func speakIETF(round func(float64) float64, quotas ...discordsim.Quota) *server {
	return &server{quotas: quotas, answer: func(states []discordsim.State, isFull bool, header http.Header) (int, string) {
		wait := time.Duration(0)
		for i, s := range states {
			wait = max(wait, s.RetryAfter)
			header.Add("RateLimit-Policy", fmt.Sprintf(`"%d";q=%d;w=%v`, i, s.Limit, quotas[i].Period.Seconds()))
			header.Add("RateLimit", fmt.Sprintf(`"%d";r=%d;t=%v`, i, s.Remaining, round(s.ResetAfter.Seconds())))
		}
		if !isFull {
			return http.StatusOK, "{}"
		}
		header.Set("Retry-After", fmt.Sprint(math.Ceil(wait.Seconds())))
		return http.StatusTooManyRequests, `{"title":"Request cannot be satisfied as assigned quota has been exceeded"}`
	}}
}

// share sends the requests, and returns their ideal time divided by the time that they took.
func share(t *testing.T, s *server, requests, paths int) float64 {
	t.Helper()
	ideal := s.ideal(requests)
	return ideal.Seconds() / getMany(t, newTransport(t, s, dialects.IETF), requests, paths).Seconds()
}

func TestIETFServersRefuseNothing(t *testing.T) {
	t.Parallel()
	const ten, seconds = 10, 2 * time.Second
	for name, quota := range map[string]discordsim.Quota{
		"fixed": discordsim.Fixed(ten, seconds), "aligned": discordsim.Aligned(ten, seconds, 0),
		"sliding": discordsim.Sliding(ten, seconds), "leaky": discordsim.Leaky(ten, seconds),
	} {
		for rounding, round := range map[string]func(float64) float64{"up": math.Ceil, "down": math.Floor} {
			for _, paths := range []int{1, 3} {
				t.Run(fmt.Sprintf("%s, rounded %s, %d paths", name, rounding, paths), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s := speakIETF(round, quota)
						reached := share(t, s, 60, paths)
						assert.Zero(t, s.refused, "refused")
						least := 0.8 // the client may waste a window before it knows the kind of the limit
						if paths == 1 && quota.Kind != discordsim.KindLeaky {
							least = 0.95
						}
						assert.Greater(t, reached, least)
						t.Logf("%.3f of the ideal", reached)
					})
				})
			}
		}
	}
}

func TestIETFServersWithTwoPolicies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		longer discordsim.Quota
		least  float64 // the lowest share of the ideal speed that is accepted
	}{
		{discordsim.Fixed(25, 10*time.Second), 0.65}, {discordsim.Fixed(100, time.Minute), 0.9},
		{discordsim.Fixed(1000, time.Hour), 0.95},
		{discordsim.Leaky(100, time.Minute), 0.9}, {discordsim.Sliding(100, time.Minute), 0.3},
	} {
		for rounding, round := range map[string]func(float64) float64{"up": math.Ceil, "down": math.Floor} {
			name := fmt.Sprintf("%v %d per %v, rounded %s", c.longer.Kind, c.longer.Limit, c.longer.Period, rounding)
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := speakIETF(round, discordsim.Fixed(10, 2*time.Second), c.longer)
					reached := share(t, s, 120, 1)
					assert.Zero(t, s.refused, "refused")
					assert.Greater(t, reached, c.least)
					t.Logf("%.3f of the ideal", reached)
				})
			})
		}
	}
}

// TestIETFServersWithRandomPolicies asserts the figures in the comment of dialects.IETF.
func TestIETFServersWithRandomPolicies(t *testing.T) {
	t.Parallel()
	const worlds = 100
	sum, sent, refused := [2]float64{}, [2]int{}, [2]int{}
	for seed := range uint64(worlds) {
		random := rand.New(rand.NewPCG(seed, 0))
		several := int(seed % 2)
		var quotas []discordsim.Quota
		limit, period := 4+random.IntN(17), time.Duration(1+random.IntN(5))*time.Second
		for range 1 + several*(1+random.IntN(2)) {
			quotas = append(quotas, []discordsim.Quota{
				discordsim.Fixed(limit, period), discordsim.Aligned(limit, period, 0), discordsim.Sliding(limit, period),
				discordsim.Leaky(limit, period),
			}[random.IntN(4)])
			factor := 2 + random.IntN(8)
			limit, period = limit*factor*2/3+1, period*time.Duration(factor)
		}
		round := []func(float64) float64{math.Ceil, math.Floor}[random.IntN(2)]
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Duration(random.IntN(5000)) * time.Millisecond)
			s, requests := speakIETF(round, quotas...), min(150, 20*quotas[0].Limit)
			sum[several] += share(t, s, requests, 1+random.IntN(4))
			sent[several] += requests
			refused[several] += s.refused
		})
	}
	t.Logf("one policy: %.2f of the ideal, %d of %d refused", 2*sum[0]/worlds, refused[0], sent[0])
	t.Logf("several: %.2f of the ideal, %d of %d refused", 2*sum[1]/worlds, refused[1], sent[1])
	assert.Zero(t, refused[0], "one policy")
	assert.Greater(t, 2*sum[0]/worlds, 0.93, "one policy")
	assert.Less(t, refused[1], sent[1]/100, "several policies")
	assert.Greater(t, 2*sum[1]/worlds, 0.68, "several policies")
}

// express-rate-limit sends the partition key only in RateLimit-Policy. A RateLimit without a key must then belong to
// the policy with the same name.
func TestALimitWithoutPartitionKeyIsThatOfThePolicyOfItsName(t *testing.T) {
	header := http.Header{}
	header.Set("RateLimit-Policy", `"100-in-15min"; q=100; w=900; pk=:ZTNiMGM0NDI5OGZj:`)
	header.Set("RateLimit", `"100-in-15min"; r=99; t=900`)
	r := dialects.IETF(http.StatusOK, header, nil)
	assert.True(t, r.Limited)
	assert.Equal(t, 100, r.Limit)
	assert.Equal(t, 99, r.Remaining)
}

// GitLab sends the reset in seconds since 1970. The dialect must not take this number for a duration.
func TestAResetMayBeATimeSince1970(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		reset time.Time
		date  string
		want  time.Duration
	}{
		"with a Date":    {now.Add(time.Minute), now.Format(http.TimeFormat), 61 * time.Second},
		"without a Date": {now.Add(time.Minute), "", 0},
		"in the past":    {now.Add(-time.Minute), now.Format(http.TimeFormat), 0},
		"in a month":     {now.AddDate(0, 1, 0), now.Format(http.TimeFormat), 0},
	} {
		header := http.Header{}
		header.Set("Date", c.date)
		header.Set("RateLimit-Limit", "60")
		header.Set("RateLimit-Remaining", "0")
		header.Set("RateLimit-Reset", strconv.FormatInt(c.reset.Unix(), 10))
		r := dialects.IETF(http.StatusOK, header, nil)
		assert.Equal(t, c.want, r.ResetAfter, name)
		assert.Equal(t, c.want > 0, r.Limited, name)
	}
}

func TestOnlyAHundredPoliciesAreRead(t *testing.T) {
	header := http.Header{}
	for n := range 200 {
		header.Add("RateLimit-Policy", fmt.Sprintf(`"%03d";q=100;w=60`, n))
		header.Add("RateLimit", fmt.Sprintf(`"%03d";r=100;t=60`, n))
	}
	bucket := dialects.IETF(http.StatusOK, header, nil).Bucket
	assert.Contains(t, bucket, `"099"`)
	assert.NotContains(t, bucket, `"100"`)
}
