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
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m,
		// These goroutines of a cluster client sleep for up to five seconds after Close, and then end.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient).redirectOrNew.func1"))
}

// application sets the application of the tests.
var application = redis.WithApplication("test-bot")

// open opens a store, and closes it when the test ends.
func open(t testing.TB, url string, options ...redis.Option) *redis.Store {
	t.Helper()
	store, err := redis.Open(t.Context(), url, append([]redis.Option{application}, options...)...)
	require.NoError(t, err)
	t.Cleanup(store.Close)
	return store
}

// refused returns the error of Open, which must fail.
func refused(t testing.TB, url string, options ...redis.Option) error {
	t.Helper()
	store, err := redis.Open(t.Context(), url, append([]redis.Option{application}, options...)...)
	if err == nil {
		store.Close()
	}
	require.Error(t, err)
	return err
}

// administrator returns a function with which a test sends commands to the engine.
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

// within returns a context that ends after d.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// pretend starts a server. If greeting is not empty, the server sends the greeting and hangs up. Otherwise it replies
// to each command with the result of answer, which has to include line ends. If the result is "", the reply is the
// error of an unknown command.
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
				if greeting != "" {
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

// words reads the words of one command.
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

// number returns the number after the first character of a line.
func number(line string) (n int) {
	for _, c := range strings.TrimSpace(line)[1:] {
		n = 10*n + int(c-'0')
	}
	return n
}
