package share

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/ratelight/ratelight/internal/redistest"
)

// errNoEngine means that there is none to share through.
var errNoEngine = errors.New("no server to share limits through: install Redis (redis-server) or Valkey (valkey-server), or name one " +
	"that runs with -redis redis://127.0.0.1:6379")

// openEngine returns the URL of the engine, the server that keeps what is shared: one that somebody else runs, or, if the URL is empty, one that
// it starts. Errors do not contain the URL, which may have a password in it.
func openEngine(ctx context.Context, url string) (own *redistest.Engine, at string, err error) {
	if url == "" {
		own, err = redistest.Start(ctx, redistest.Options{})
		if errors.Is(err, redistest.ErrNotInstalled) {
			return nil, "", errNoEngine
		}
		if err != nil {
			return nil, "", fmt.Errorf("start a server to share limits through: %w", err)
		}
		url = own.URL()
	}
	// Whatever a bot would be told of this server.
	_, unshare, err := assignment{Engine: url, Application: application()}.share(ctx)
	if err != nil {
		if own != nil {
			own.Close()
		}
		return nil, "", fmt.Errorf("the server to share limits through: %w", err)
	}
	unshare()
	return own, url, nil
}

// application is a name under which nothing is shared yet.
func application() string { return fmt.Sprintf("ratelight-bench-%x", rand.Uint64()) }

// snapshot keeps what the engine knows at the moment.
func snapshot(engine *redistest.Engine) error {
	if _, err := engine.Do("SAVE"); err != nil {
		return err
	}
	return os.Rename(dump(engine), dump(engine)+".old")
}

// rollBack starts the engine again with what it knew when the snapshot was taken.
func rollBack(ctx context.Context, engine *redistest.Engine) error {
	if err := os.Rename(dump(engine)+".old", dump(engine)); err != nil {
		return err
	}
	defer os.Remove(dump(engine))
	return engine.Restart(ctx)
}

// dump is the file that an engine reads when it starts.
func dump(engine *redistest.Engine) string { return filepath.Join(engine.Directory(), "dump.rdb") }
