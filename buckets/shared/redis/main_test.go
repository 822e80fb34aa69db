package redis_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/buckets/shared/redis"
	"github.com/ratelight/ratelight/internal/redistest"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m,
		// The client of a cluster leaves these behind when it is closed: they sleep for up to five seconds, and then
		// find everything closed.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient).redirectOrNew.func1"))
}

// application names the keys of a test.
var application = redis.WithApplication("test-bot")

// open opens a store that ends with the test.
func open(t testing.TB, url string, options ...redis.Option) *redis.Store {
	t.Helper()
	store, err := redis.Open(t.Context(), url, append([]redis.Option{application}, options...)...)
	require.NoError(t, err)
	t.Cleanup(store.Close)
	return store
}

// refused opens a store and returns why that fails.
func refused(t testing.TB, url string, options ...redis.Option) error {
	t.Helper()
	store, err := redis.Open(t.Context(), url, append([]redis.Option{application}, options...)...)
	if err == nil {
		store.Close()
	}
	require.Error(t, err)
	return err
}

// administrator returns a client with which a test administers the engine.
func administrator(t testing.TB, url string) func(words ...string) rueidis.RedisResult {
	t.Helper()
	o, err := rueidis.ParseURL(url)
	require.NoError(t, err)
	o.ForceSingleClient, o.DisableCache = true, true
	client, err := rueidis.NewClient(o)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return func(words ...string) rueidis.RedisResult {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return client.Do(ctx, client.B().Arbitrary(words...).Build())
	}
}

// rules returns the ACL rules of an application.
func rules(t testing.TB, application string) []string {
	t.Helper()
	rules, err := redis.ACLRules(application)
	require.NoError(t, err)
	return rules
}

// within returns a context with a timeout, for operations that should take much less time.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// proxy forwards connections to an engine, and lets a test interrupt them.
type proxy struct {
	listener net.Listener
	to       string
	running  sync.WaitGroup

	mu     sync.Mutex
	dialed int
	reply  func(p []byte, connection net.Conn) bool // false: it is not passed on, and the connection ends
}

// newProxy starts a proxy at a listener, or at a free port if that is nil.
func newProxy(t testing.TB, e *redistest.Engine, listener net.Listener) *proxy {
	t.Helper()
	if listener == nil {
		var err error
		listener, err = net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
	}
	p := &proxy{listener: listener, to: e.Address()}
	p.running.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.dialed++
			p.mu.Unlock()
			p.running.Go(func() { p.serve(connection) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		p.running.Wait()
	})
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) onReply(f func(p []byte, connection net.Conn) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reply = f
}

func (p *proxy) serve(connection net.Conn) {
	defer connection.Close()
	engine, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer engine.Close()
	p.running.Go(func() {
		_, _ = io.Copy(engine, connection)
		engine.Close()
	})
	buffer := make([]byte, 1<<16)
	for {
		n, err := engine.Read(buffer)
		if err != nil {
			return
		}
		p.mu.Lock()
		reply := p.reply
		p.mu.Unlock()
		if reply != nil && !reply(buffer[:n], connection) {
			return
		}
		if _, err := connection.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// pretend starts a server that sends the greeting and hangs up, or answers each command with the result of answer: a
// whole reply, with its line ends. If the result is empty, the server replies that it does not know the command.
func pretend(t testing.TB, greeting string, answer func(words []string) string) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer connection.Close()
				reader := bufio.NewReader(connection)
				if greeting != "" { // and nothing else
					_, _ = io.WriteString(connection, greeting)
					_, _ = reader.ReadByte()
					return
				}
				for {
					words, err := words(reader)
					if err != nil {
						return
					}
					said := answer(words)
					if said == "" {
						said = "-ERR unknown command `" + words[0] + "`, with args beginning with: \r\n"
					}
					_, _ = io.WriteString(connection, said)
				}
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		running.Wait()
	})
	return listener.Addr().String()
}

// words reads a command.
func words(r *bufio.Reader) (words []string, err error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	for range number(line) {
		length, err := r.ReadString('\n')
		if err != nil {
			return nil, err
		}
		text := make([]byte, number(length)+2)
		if _, err := io.ReadFull(r, text); err != nil {
			return nil, err
		}
		words = append(words, string(text[:len(text)-2]))
	}
	return words, nil
}

// number reads what follows the first character of a line.
func number(line string) (n int) {
	for _, c := range strings.TrimSpace(line)[1:] {
		n = 10*n + int(c-'0')
	}
	return n
}
