package goredis_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/buckets/shared/goredis"
	"github.com/ratelight/ratelight/internal/enginetest"
	"github.com/ratelight/ratelight/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRunnerConforms(t *testing.T) {
	t.Parallel()
	enginetest.RunRunner(t, func(t *testing.T, address string) enginetest.Runner {
		client := redis.NewClient(goredis.Settings(&redis.Options{Addr: address}))
		t.Cleanup(func() { client.Close() })
		return goredis.New(client)
	})
}

// losing is a connection. If lose is set, it loses the next reply to a script.
type losing struct {
	net.Conn
	lose *atomic.Bool
}

func (l losing) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if strings.HasPrefix(string(p[:n]), "*1\r\n:") && l.lose.Swap(false) {
		l.Conn.Close()
		return 0, io.EOF
	}
	return n, err
}

func TestCluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.NewCluster(t, 3, 1)
	lose := new(atomic.Bool)
	client := redis.NewClusterClient(goredis.ClusterSettings(&redis.ClusterOptions{
		Addrs: []string{nodes[0].Address(), nodes[1].Address()},
		Dialer: func(_ context.Context, network, address string) (net.Conn, error) {
			connection, err := net.Dial(network, address)
			return losing{connection, lose}, err
		},
	}))
	t.Cleanup(func() { client.Close() })
	r := goredis.New(client)
	enginetest.LosesReply(t, r, func() { lose.Store(true) })
	enginetest.InAllSlots(t, r)
	hears := enginetest.Listen(t, r)
	hears("one")
	nodes[enginetest.Owner(t, nodes)].Kill()
	enginetest.Runs(t, r)
	hears("two")
}

func TestSettingsKeepWhatIsSet(t *testing.T) {
	t.Parallel()
	o := goredis.Settings(&redis.Options{DialTimeout: time.Minute})
	assert.Equal(t, time.Minute, o.DialTimeout)
	assert.Equal(t, -1, o.MaxRetries)
	assert.Equal(t, 1, o.DialerRetries)
	assert.True(t, o.ContextTimeoutEnabled)
	assert.Equal(t, 2*time.Second, goredis.ClusterSettings(&redis.ClusterOptions{}).ClusterStateReloadInterval)
	assert.Equal(t, -1, goredis.FailoverSettings(&redis.FailoverOptions{}).MaxRetries)
}
