package discordtest_test

import (
	"go/parser"
	"go/token"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient/discordtest"
)

// The server calls functions of the test from many goroutines, without a lock, while other goroutines read the recorded
// requests. This must be safe.
func TestServerIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	var server *discordtest.Server
	look := func() int { return len(server.Requests()) + len(server.Refused()) + len(server.Avoidable()) }
	server = discordtest.NewServer(t,
		discordtest.Window(create, 10, time.Hour),
		discordtest.Cut("*").Nth(5).When(func(*http.Request) bool { return look() >= 0 }),
		discordtest.Handle("*", func(w http.ResponseWriter, _ *http.Request) {
			look()
			w.WriteHeader(http.StatusAccepted)
		}))
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			_, _ = send(t, server.Client(), http.MethodPost, base+messages, "{}") // the fifth request is cut off
			look()
		})
	}
	all.Wait()
	statuses := make(map[int]int)
	for _, r := range server.Requests() {
		statuses[r.Status]++
	}
	assert.Equal(t, map[int]int{0: 1, 202: 10, 429: 29}, statuses)
}

// Close must end requests while a handler works on them, even if the handler waits until its client disconnects.
func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{})
	server := discordtest.NewServer(nil, discordtest.Handle("GET /gateway", func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
	}))
	failed := make(chan error)
	go func() {
		response, err := server.Client().Get(base + "/gateway")
		if err == nil {
			response.Body.Close()
		}
		failed <- err
	}()
	<-entered
	server.Close()
	assert.Error(t, <-failed)
}

// The package judges whether clients are correct, so it must not import any part of the library.
func TestPackageKnowsNothingOfTheLibrary(t *testing.T) {
	t.Parallel()
	const engine = "../../internal/discordsim/"
	for _, pattern := range []string{"*.go", engine + "*.go", engine + "measured/*.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
			require.NoError(t, err)
			for _, i := range file.Imports {
				path, err := strconv.Unquote(i.Path.Value)
				require.NoError(t, err)
				path = strings.TrimSuffix(path, "/measured")
				if path != "github.com/ratelight/ratelight/internal/discordsim" {
					assert.NotContains(t, path, ".", "%s imports more than the standard library", name)
				}
			}
		}
	}
}
