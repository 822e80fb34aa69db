package redis_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared/redis"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/redistest"
)

// away returns an engine (a Redis or Valkey server) that is stopped.
func away(t *testing.T, arguments ...string) *redistest.Engine {
	t.Helper()
	e := redistest.NewEngine(t, arguments...)
	e.Kill()
	return e
}

func TestLateConnect(t *testing.T) {
	t.Parallel()
	e := away(t)
	require.ErrorIs(t, refused(t, e.URL()), redis.ErrUnreachable)

	store := open(t, e.URL(), redis.WithLateConnect())
	discord, err := discordsim.New(discordsim.Config{})
	require.NoError(t, err)
	defer discord.Close()
	m := buckets.NewRESTBucketManager(buckets.WithShared(store))
	require.NoError(t, m.Start())
	defer m.Close()
	sent := make(chan error, 1)
	go func() { sent <- send(within(t, 20*time.Second), m, discord, "1") }()
	require.Eventually(t, func() bool { return m.Stats().Shared.Outage > 0 }, 5*time.Second, 10*time.Millisecond)
	require.ErrorIs(t, store.Outage(), redis.ErrUnreachable)
	require.Zero(t, discord.Report().Requests)

	require.NoError(t, e.Restart(t.Context()))
	require.NoError(t, <-sent)
	require.NoError(t, store.Outage())
	exists, err := administrator(t, e.URL())("EXISTS", "rl2:{test-bot}:v").AsInt64()
	require.NoError(t, err)
	assert.Equal(t, int64(1), exists, "the engine was checked")
}

func TestLateConnectSubscribes(t *testing.T) {
	t.Parallel()
	e := away(t)
	store := open(t, e.URL(), redis.WithLateConnect())
	session := store.Join(clockwork.NewRealClock(), time.Now())
	defer session.Close()
	require.NoError(t, e.Restart(t.Context()))
	ask := administrator(t, e.URL())
	require.Eventually(t, func() bool {
		channels, err := ask("PUBSUB", "CHANNELS", "rl2:{test-bot}:o:*").AsStrSlice()
		return err == nil && len(channels) == 1
	}, 10*time.Second, 10*time.Millisecond)
}

func TestLateConnectWaitsForAServerThatLoadsItsData(t *testing.T) {
	t.Parallel()
	address := pretend(t, "", func([]string) string { return "-LOADING Redis is loading the dataset in memory\r\n" })
	require.ErrorIs(t, refused(t, "redis://"+address), redis.ErrLoading)
	open(t, "redis://"+address, redis.WithLateConnect())
}

func TestLateConnectReportsALastingProblem(t *testing.T) {
	t.Parallel()
	e := redistest.NewEngine(t, "--requirepass", "secret")
	require.ErrorIs(t, refused(t, e.URL(), redis.WithLateConnect()), redis.ErrAuthentication, "waiting does not help")

	e.Kill()
	store := open(t, e.URL(), redis.WithLateConnect())
	m := buckets.NewRESTBucketManager(buckets.WithShared(store))
	require.NoError(t, m.Start())
	defer m.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = send(ctx, m, nil, "1") }()
	require.NoError(t, e.Restart(t.Context()))
	require.Eventually(t, func() bool {
		return errors.Is(store.Outage(), redis.ErrAuthentication)
	}, 10*time.Second, 10*time.Millisecond)
}

func TestStoreThatNeverConnectedIsClosed(t *testing.T) {
	t.Parallel()
	e := away(t)
	store, err := redis.Open(t.Context(), e.URL(), application, redis.WithLateConnect())
	require.NoError(t, err)
	m := buckets.NewRESTBucketManager(buckets.WithShared(store))
	require.NoError(t, m.Start())
	defer m.Close()
	store.Close()
	store.Close()
	require.ErrorIs(t, send(within(t, 5*time.Second), m, nil, "1"), redis.ErrClosed)
}
