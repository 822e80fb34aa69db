package processes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/ratelight/ratelight/internal/redistest"
)

// Engine is the server that keeps what is shared: one that was started for this, or one that somebody else runs.
type Engine struct {
	url    string
	own    *redistest.Engine // nil: somebody else's
	client rueidis.Client

	mu     sync.Mutex
	before Effort // of earlier lives
	latest Effort // of this one
}

// Effort is what an engine has done for scripts.
type Effort struct {
	Calls int
	Took  time.Duration // of the engine's own time
}

// ErrNoEngine means that there is none to share through.
var ErrNoEngine = errors.New("no server to share limits through: install Redis (redis-server) or Valkey (valkey-server), or name one " +
	"that runs with -redis redis://127.0.0.1:6379")

// OpenEngine connects to a server, or starts one of its own if the URL is empty. Errors do not contain the URL, which may have a
// password in it.
func OpenEngine(ctx context.Context, url string) (*Engine, error) {
	e := &Engine{url: url}
	if url == "" {
		own, err := redistest.Start(ctx, redistest.Options{})
		if errors.Is(err, redistest.ErrNotInstalled) {
			return nil, ErrNoEngine
		}
		if err != nil {
			return nil, fmt.Errorf("start a server to share limits through: %w", err)
		}
		e.own, e.url = own, own.URL()
	}
	// Whatever a bot would be told of this server.
	_, unshare, err := share(ctx, assignment{Engine: e.url, Application: application()})
	if err != nil {
		e.Close()
		return nil, fmt.Errorf("the server to share limits through: %w", err)
	}
	unshare()
	if err := e.connect(ctx); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

func (e *Engine) connect(ctx context.Context) error {
	options, err := rueidis.ParseURL(strings.Replace(e.url, "valkey", "redis", 1)) // it knows only one of the names
	if err != nil {
		return errors.New("the URL of the server to share limits through is not one: expected something like redis://127.0.0.1:6379")
	}
	options.DisableCache, options.AlwaysPipelining = true, true
	if e.client, err = rueidis.NewClient(options); err != nil {
		return fmt.Errorf("connect to the server to share limits through: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err = e.Effort(ctx); err != nil {
		return fmt.Errorf("ask the server to share limits through how many scripts it has run (INFO commandstats): %w", err)
	}
	return nil
}

// application is a name under which nothing is shared yet.
func application() string { return fmt.Sprintf("ratelight-bench-%x", rand.Uint64()) }

// URL is where it is. It may contain a password.
func (e *Engine) URL() string { return e.url }

// Effort is what it has done so far. What it did in an earlier life since it was last asked is not known.
func (e *Engine) Effort(ctx context.Context) (Effort, error) {
	var now Effort
	for _, node := range e.client.Nodes() {
		text, err := node.Do(ctx, node.B().Info().Section("commandstats").Build()).ToString()
		if err != nil {
			return Effort{}, err
		}
		now = now.plus(scripts(text))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Calls < e.latest.Calls {
		e.before = e.before.plus(e.latest)
	}
	e.latest = now
	return e.before.plus(now), nil
}

func (e Effort) plus(other Effort) Effort { return Effort{e.Calls + other.Calls, e.Took + other.Took} }

func (e Effort) minus(other Effort) Effort {
	return Effort{e.Calls - other.Calls, e.Took - other.Took}
}

// scripts adds up the lines about scripts, such as
//
//	cmdstat_evalsha:calls=12,usec=345,usec_per_call=28.75,rejected_calls=0,failed_calls=0
func scripts(text string) (sum Effort) {
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		command, numbers, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "cmdstat_"), ":")
		switch command {
		case "eval", "evalsha", "eval_ro", "evalsha_ro":
		default:
			continue
		}
		for number := range strings.SplitSeq(numbers, ",") {
			name, value, _ := strings.Cut(number, "=")
			n, _ := strconv.Atoi(strings.TrimSpace(value)) // fractions are of no interest
			switch name {
			case "calls":
				sum.Calls += n
			case "usec":
				sum.Took += time.Duration(n) * time.Microsecond
			}
		}
	}
	return sum
}

// Close ends the connection, and the server if it is our own.
func (e *Engine) Close() {
	if e.client != nil {
		e.client.Close()
	}
	if e.own != nil {
		e.own.Close()
	}
}
