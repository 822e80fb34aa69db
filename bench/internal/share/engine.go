package share

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/ratelight/ratelight/internal/redistest"
)

// engine is the server that keeps what is shared: one that was started for this, or one that somebody else runs.
type engine struct {
	url    string
	own    *redistest.Engine // nil: somebody else's
	client rueidis.Client
}

// effort is what an engine has done for scripts.
type effort struct {
	calls int
	took  time.Duration // of the engine's own time
}

// errNoEngine means that there is none to share through.
var errNoEngine = errors.New("no server to share limits through: install Redis (redis-server) or Valkey (valkey-server), or name one " +
	"that runs with -redis redis://127.0.0.1:6379")

// openEngine connects to a server, or starts one of its own if the URL is empty. Errors do not contain the URL, which may have a
// password in it.
func openEngine(ctx context.Context, url string) (*engine, error) {
	e := &engine{url: url}
	if url == "" {
		own, err := redistest.Start(ctx, redistest.Options{})
		if errors.Is(err, redistest.ErrNotInstalled) {
			return nil, errNoEngine
		}
		if err != nil {
			return nil, fmt.Errorf("start a server to share limits through: %w", err)
		}
		e.own, e.url = own, own.URL()
	}
	// Whatever a bot would be told of this server.
	_, unshare, err := assignment{Engine: e.url, Application: application()}.share(ctx)
	if err == nil {
		unshare()
		err = e.connect(ctx)
	}
	if err != nil {
		e.close()
		return nil, fmt.Errorf("the server to share limits through: %w", err)
	}
	return e, nil
}

func (e *engine) connect(ctx context.Context) error {
	options, err := rueidis.ParseURL(strings.Replace(e.url, "valkey", "redis", 1)) // it knows only one of the names
	if err != nil {
		return errors.New("its URL is not one: expected something like redis://127.0.0.1:6379")
	}
	options.DisableCache, options.AlwaysPipelining = true, true
	if e.client, err = rueidis.NewClient(options); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err = e.effort(ctx)
	return err
}

// application is a name under which nothing is shared yet.
func application() string { return fmt.Sprintf("ratelight-bench-%x", rand.Uint64()) }

// scripts finds lines such as
//
//	cmdstat_evalsha:calls=12,usec=345,usec_per_call=28.75,rejected_calls=0,failed_calls=0
var scripts = regexp.MustCompile(`cmdstat_eval(?:sha)?(?:_ro)?:calls=(\d+),usec=(\d+)`)

// effort is what it has done since it was started.
func (e *engine) effort(ctx context.Context) (effort, error) {
	var now effort
	for _, node := range e.client.Nodes() {
		text, err := node.Do(ctx, node.B().Info().Section("commandstats").Build()).ToString()
		if err != nil {
			return effort{}, err
		}
		for _, line := range scripts.FindAllStringSubmatch(text, -1) {
			calls, _ := strconv.Atoi(line[1])
			took, _ := strconv.Atoi(line[2])
			now = now.plus(effort{calls, time.Duration(took) * time.Microsecond})
		}
	}
	return now, nil
}

func (e effort) plus(other effort) effort  { return effort{e.calls + other.calls, e.took + other.took} }
func (e effort) minus(other effort) effort { return effort{e.calls - other.calls, e.took - other.took} }

// snapshot keeps what the engine knows at the moment.
func (e *engine) snapshot() error {
	if _, err := e.own.Do("SAVE"); err != nil {
		return err
	}
	return os.Rename(e.dump(), e.dump()+".old")
}

// rollBack starts the engine again with what it knew when the snapshot was taken.
func (e *engine) rollBack(ctx context.Context) error {
	if err := os.Rename(e.dump()+".old", e.dump()); err != nil {
		return err
	}
	defer os.Remove(e.dump())
	return e.own.Restart(ctx)
}

// dump is the file that a server reads when it starts.
func (e *engine) dump() string { return filepath.Join(e.own.Directory(), "dump.rdb") }

// close ends the connection, and the server if it is our own.
func (e *engine) close() {
	if e.client != nil {
		e.client.Close()
	}
	if e.own != nil {
		e.own.Close()
	}
}
