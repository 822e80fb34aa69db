package redis_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/buckets/shared/redis"
	"github.com/ratelight/ratelight/internal/enginetest"
	"github.com/ratelight/ratelight/internal/redistest"
)

var publish = &shared.Script{Name: "publish", Source: "return {redis.call('PUBLISH', ARGV[1], ARGV[2])}"}

func TestCluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.NewCluster(t, 3, 1)
	store := open(t, nodes[1].URL()+"?addr="+nodes[2].Address())
	assert.Equal(t, rueidis.ClientModeCluster, store.Runner().Mode())
	enginetest.InAllSlots(t, store.Runner())
	hears := enginetest.Listen(t, store.Runner())
	hears("one")
	open(t, nodes[4].URL()) // this node is a replica, but it knows the primaries

	t.Run("permissions", func(t *testing.T) {
		all := append([]string{"ACL", "SETUSER", "bot", ">secret"}, rules(t, "test-bot")...)
		user := func(more ...string) {
			for _, node := range nodes {
				_, err := node.Do("ACL", "DELUSER", "bot")
				require.NoError(t, err)
				_, err = node.Do(append(append([]string{}, all...), more...)...)
				require.NoError(t, err)
			}
		}
		url := "redis://bot:secret@" + nodes[0].Address()
		user()
		err := refused(t, url)
		assert.ErrorIs(t, err, redis.ErrPermission)
		assert.ErrorContains(t, err, "cluster|slots")
		err = refused(t, url+"?addr="+nodes[1].Address())
		assert.ErrorIs(t, err, redis.ErrPermission)
		assert.ErrorContains(t, err, "cluster|slots")
		user("+cluster|slots", "+cluster|shards")
		open(t, url)
		assert.ErrorIs(t, refused(t, nodes[0].URL()+"/1"), redis.ErrDatabase)
	})

	t.Run("failover", func(t *testing.T) {
		nodes[enginetest.Owner(t, nodes)].Kill()
		_, err := store.Runner().Run(within(t, 500*time.Millisecond), count, []string{key})
		assert.Error(t, err)
		enginetest.Runs(t, store.Runner())
		hears("two")
	})
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	primary := redistest.NewEngine(t, "--repl-diskless-sync-delay", "0")
	replica := redistest.NewEngine(t, "--replicaof", "127.0.0.1", strconv.Itoa(primary.Port()))
	sentinel := redistest.NewSentinel(t, "bots", primary)
	require.Eventually(t, func() bool {
		known, err := sentinel.Do("SENTINEL", "REPLICAS", "bots")
		list, _ := known.([]any)
		return err == nil && len(list) == 1
	}, 20*time.Second, 20*time.Millisecond)

	assert.ErrorIs(t, refused(t, sentinel.URL()), redis.ErrSentinel)
	forgotten := refused(t, sentinel.URL()+"?addr="+sentinel.Address())
	assert.ErrorIs(t, forgotten, redis.ErrNoCluster)
	assert.ErrorContains(t, forgotten, "master_set")
	assert.ErrorIs(t, refused(t, sentinel.URL()+"?master_set=others"), redis.ErrSentinel)
	assert.ErrorIs(t, refused(t, primary.URL()+"?master_set=bots"), redis.ErrSentinel)

	_, err := primary.Do(append([]string{"ACL", "SETUSER", "bot", ">secret"}, rules(t, "test-bot")...)...)
	require.NoError(t, err)
	err = refused(t, "redis://bot:secret@"+sentinel.Address()+"?master_set=bots")
	assert.ErrorIs(t, err, redis.ErrPermission)
	assert.ErrorContains(t, err, "role")
	_, err = primary.Do("ACL", "SETUSER", "bot", "+role")
	require.NoError(t, err)
	open(t, "redis://bot:secret@"+sentinel.Address()+"?master_set=bots")

	store := open(t, sentinel.URL()+"?master_set=bots&addr=127.0.0.1:1")
	assert.Equal(t, rueidis.ClientModeSentinel, store.Runner().Mode())
	hears := enginetest.Listen(t, store.Runner())
	hears("one")
	require.Eventually(t, func() bool {
		n, err := replica.Do("EXISTS", "rl2:{test-bot}:v")
		return err == nil && n == int64(1)
	}, 20*time.Second, 10*time.Millisecond)

	primary.Kill()
	_, err = store.Runner().Run(within(t, 500*time.Millisecond), count, []string{key})
	assert.Error(t, err)
	enginetest.Runs(t, store.Runner())
	hears("two")
	role, err := replica.Do("ROLE")
	require.NoError(t, err)
	assert.Equal(t, "master", role.([]any)[0])
}
