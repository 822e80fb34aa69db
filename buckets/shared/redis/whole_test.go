package redis_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared/redis"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/redistest"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

const token = "Bot MTk4NjIy.secret"

// send sends a message to a channel as soon as the manager grants a permit.
func send(ctx context.Context, m *buckets.RESTBucketManager, discord *discordsim.Server, channel string) error {
	path := "/channels/" + channel + "/messages"
	route, err := routes.Match("POST", path)
	if err != nil {
		return err
	}
	lease, err := m.Acquire(ctx, route, token)
	if err != nil {
		return err
	}
	defer lease.Release()
	request, err := http.NewRequestWithContext(ctx, "POST", discordsim.BaseURL+path, strings.NewReader("{}"))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", token)
	response, err := discord.RoundTripper().RoundTrip(request)
	if err != nil {
		return err
	}
	response.Body.Close()
	r := ratelimits.ParseResponse(response.StatusCode, response.Header, nil)
	r.Stamp = ratelimits.ParseStamp(response.Header)
	lease.Update(r)
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	return nil
}

// Managers share buckets, the global limit, discoveries and the counts of invalid responses through a cluster, as a
// user with only the documented permissions. No call may fail, although the cluster refuses scripts whose keys are in
// different slots.
func TestManagersShareOverAClusterWithTheDocumentedPermissions(t *testing.T) {
	t.Parallel()
	nodes := redistest.NewCluster(t, 3, 0)
	for _, node := range nodes {
		allowed := append(rules(t, "test-bot"), "+cluster|slots")
		_, err := node.Do(append([]string{"ACL", "SETUSER", "bot", ">secret"}, allowed...)...)
		require.NoError(t, err)
	}
	discord, err := discordsim.New(discordsim.Config{
		Rules:     []discordsim.Rule{{Path: "**", Hash: "h", Quota: discordsim.Fixed(5, time.Second)}},
		Latency:   discordsim.Latency{RoundTrip: 20 * time.Millisecond},
		Tolerance: 50 * time.Millisecond,
	})
	require.NoError(t, err)
	defer discord.Close()

	var managers []*buckets.RESTBucketManager
	for _, node := range nodes[:2] {
		store := open(t, "redis://bot:secret@"+node.Address(), redis.WithAddress("203.0.113.7"))
		m := buckets.NewRESTBucketManager(buckets.WithShared(store), buckets.WithLogger(nil))
		require.NoError(t, m.Start())
		defer m.Close()
		managers = append(managers, m)
	}
	ctx := within(t, 30*time.Second)
	var all sync.WaitGroup
	for i, m := range managers {
		for range 8 {
			all.Go(func() { assert.NoError(t, send(ctx, m, discord, "1")) })
			all.Go(func() { assert.NoError(t, send(ctx, m, discord, fmt.Sprint(10+i))) })
		}
	}
	all.Wait()
	// An invalid response is reported to the server within a second.
	route, err := routes.Match("GET", "/channels/1")
	require.NoError(t, err)
	lease, err := managers[0].Acquire(ctx, route, token)
	require.NoError(t, err)
	lease.Update(ratelimits.ParseResponse(http.StatusUnauthorized, nil, nil))
	keys := func() (found []string) {
		for _, node := range nodes {
			all, err := node.Do("KEYS", "*")
			require.NoError(t, err)
			for _, name := range all.([]any) {
				found = append(found, name.(string))
			}
		}
		return found
	}
	require.Eventually(t, func() bool {
		return strings.Contains(strings.Join(keys(), " "), "rl2:ip:{")
	}, 10*time.Second, 20*time.Millisecond, "no key has the counts of the address")
	// A process that starts now must accept the counts that other processes have stored.
	open(t, "redis://bot:secret@"+nodes[2].Address(), redis.WithAddress("203.0.113.7"))

	report := discord.Report()
	assert.Equal(t, 32, report.Accepted)
	assert.Zero(t, report.Refused.User+report.Refused.Global+report.Refused.Shared)
	for _, node := range nodes {
		all, err := node.Do("KEYS", "*")
		require.NoError(t, err)
		for _, name := range all.([]any) {
			life, err := node.Do("PTTL", name.(string))
			require.NoError(t, err)
			assert.NotEqual(t, int64(-1), life, "%s has no expiry", name)
			assert.Regexp(t, `^rl2:(\{test-bot\}:|ip:\{)`, name)
			for _, secret := range []string{"MTk4NjIy", "secret"} {
				assert.NotContains(t, name, secret)
			}
		}
		denied, err := node.Do("ACL", "LOG")
		require.NoError(t, err)
		for _, entry := range denied.([]any) {
			assert.Regexp(t, `object (info|cluster\|\w+)`, fmt.Sprint(entry))
		}
	}
}
