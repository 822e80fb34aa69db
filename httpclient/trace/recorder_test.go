package trace_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/trace"
	"github.com/ratelight/ratelight/routes"
)

// lines returns the recorded lines without the header.
func lines(t *testing.T, content string) [][]string {
	t.Helper()
	all, err := csv.NewReader(strings.NewReader(content)).ReadAll()
	require.NoError(t, err)
	require.NotEmpty(t, all)
	require.Equal(t, []string{"time", "method", "path"}, all[0])
	return all[1:]
}

func TestAReplayHasTheSameRoutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(20 * 365 * 24 * time.Hour) // the virtual clock starts in 2000; Discord's ids begin in 2015
		var file bytes.Buffer
		recorder := trace.New(&file)
		done := recorder.Hooks().Done
		var want []string
		add := func(route routes.Route) {
			major := "-"
			if route.MajorKind() != routes.MajorNone {
				major = "900000000000000001"
			}
			done(t.Context(), httpclient.DoneEvent{Route: route.String(), Major: major, TokenHash: 77})
			want = append(want, route.String())
		}
		for route := range routes.All() {
			add(route)
		}
		add(routes.DeleteYoungMessage)
		add(routes.DeleteOldMessage)
		for method, path := range map[string]string{
			"POST": "/webhooks/1/aW50ZXJhY3Rpb246abc", "PATCH": "/channels/1/unheard-of/secret/more",
			"PROPFIND": "/unheard-of/77",
			"GET":      "/webhooks/1/aW50ZXJhY3Rpb246abc/messages/@original", "PUT": "/users/@me/unheard-of",
		} {
			compiled, err := routes.Match(method, path)
			require.NoError(t, err)
			add(compiled.Route())
		}
		require.NoError(t, recorder.Close())
		for i, line := range lines(t, file.String()) {
			at, err := time.Parse(time.RFC3339Nano, line[0])
			require.NoError(t, err)
			compiled, err := routes.MatchAt(line[1], line[2], at)
			require.NoError(t, err, line)
			assert.Equal(t, want[i], compiled.Route().String(), line)
			assert.NotContains(t, line[2], "900000000000000001")
		}
		assert.Zero(t, recorder.LeftOut())
	})
}

func TestTheSameMajorParameterHasTheSameNumber(t *testing.T) {
	t.Parallel()
	record := func(events ...httpclient.DoneEvent) (paths []string) {
		var file bytes.Buffer
		recorder := trace.New(&file)
		for _, e := range events {
			recorder.Hooks().Done(t.Context(), e)
		}
		require.NoError(t, recorder.Close())
		for _, line := range lines(t, file.String()) {
			paths = append(paths, line[2])
		}
		return paths
	}
	message := httpclient.DoneEvent{Route: routes.CreateMessage.String(), Major: "1"}
	other := httpclient.DoneEvent{Route: routes.CreateMessage.String(), Major: "2"}
	webhook := httpclient.DoneEvent{Route: routes.ExecuteWebhook.String(), Major: "1:…", TokenHash: 5}
	otherWebhook := httpclient.DoneEvent{Route: routes.ExecuteWebhook.String(), Major: "1:…", TokenHash: 7}
	paths := record(message, other, message, webhook, otherWebhook, webhook)
	assert.Equal(t, paths[0], paths[2])
	assert.NotEqual(t, paths[0], paths[1])
	assert.Equal(t, paths[3], paths[5])
	assert.NotEqual(t, paths[3], paths[4])
	assert.NotEqual(t, paths[0], record(message)[0], "another recording must use another key")
}

func TestRecordedTimesAreThoseOfTheCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var file bytes.Buffer
		recorder := trace.New(&file)
		begin := time.Now()
		below := base(func(r *http.Request) (*http.Response, error) {
			time.Sleep(80 * time.Millisecond)
			header := http.Header{"X-Ratelimit-Bucket": {"a"}, "X-Ratelimit-Limit": {"1"}, "X-Ratelimit-Remaining": {"0"},
				"X-Ratelimit-Reset-After": {"5"}}
			return &http.Response{StatusCode: 200, Header: header, Body: http.NoBody, Request: r}, nil
		})
		transport := httpclient.NewTransport(httpclient.WithBase(below), httpclient.WithMaxRateLimit(8*time.Second))
		transport.AddHooks(recorder.Hooks())
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
					"https://discord.com/api/v10/webhooks/900000000000000001/canary-5f0c2e", nil)
				if !assert.NoError(t, err) {
					return
				}
				if response, err := transport.RoundTrip(r); err == nil {
					_ = response.Body.Close()
				}
			})
		}
		all.Wait()
		require.NoError(t, transport.Close())
		require.NoError(t, recorder.Close())
		got := lines(t, file.String())
		require.Len(t, got, 3, "the refused request must be recorded, too")
		for _, line := range got {
			at, err := time.Parse(time.RFC3339Nano, line[0])
			require.NoError(t, err)
			assert.WithinDuration(t, begin, at, time.Microsecond)
			assert.Equal(t, got[0][2], line[2])
		}
		assert.NotContains(t, file.String(), "canary")
		assert.NotContains(t, file.String(), "900000000000000001")
	})
}

type base func(*http.Request) (*http.Response, error)

func (b base) RoundTrip(r *http.Request) (*http.Response, error) { return b(r) }

// stuck is a writer that does not return until free is closed.
type stuck struct{ free chan struct{} }

func (s stuck) Write(p []byte) (int, error) {
	<-s.free
	return len(p), nil
}

func TestNoRequestWaitsForASlowWriter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := stuck{make(chan struct{})}
		recorder := trace.New(w)
		e := httpclient.DoneEvent{Route: routes.CreateMessage.String(), Major: "1"}
		const n = 100_000
		for range n {
			recorder.Hooks().Done(t.Context(), e)
		}
		assert.Positive(t, recorder.LeftOut())
		close(w.free)
		require.NoError(t, recorder.Close())
		recorder.Hooks().Done(t.Context(), e)
		assert.Less(t, recorder.LeftOut(), uint64(n))
		require.ErrorIs(t, recorder.Close(), trace.ErrClosed)
	})
}

func TestLinesAreWrittenWithinASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reader, writer := io.Pipe()
		read := make(chan string, 10)
		go func() {
			p := make([]byte, 4096)
			for n, err := reader.Read(p); err == nil; n, err = reader.Read(p) {
				read <- string(p[:n])
			}
		}()
		recorder := trace.New(writer)
		for range 3 {
			time.Sleep(10 * time.Second)
			recorder.Hooks().Done(context.Background(), httpclient.DoneEvent{Route: routes.CreateMessage.String(), Major: "1"})
			time.Sleep(1100 * time.Millisecond)
			assert.NotEmpty(t, read)
			for len(read) > 0 {
				<-read
			}
		}
		require.NoError(t, recorder.Close())
		_ = writer.Close()
	})
}

func TestAFailureOfTheWriterIsTold(t *testing.T) {
	t.Parallel()
	full := errors.New("no space left")
	reader, writer := io.Pipe()
	_ = reader.CloseWithError(full)
	recorder := trace.New(writer)
	for range 10_000 {
		recorder.Hooks().Done(t.Context(), httpclient.DoneEvent{Route: routes.CreateMessage.String(), Major: "1"})
	}
	require.ErrorIs(t, recorder.Close(), full)
}

func ExampleRecorder() {
	var file bytes.Buffer // or a file
	recorder := trace.New(&file)
	transport := httpclient.NewTransport()
	transport.AddHooks(recorder.Hooks())

	// … requests …

	_ = transport.Close()
	fmt.Println(recorder.Close(), recorder.LeftOut())
	// Output: <nil> 0
}
