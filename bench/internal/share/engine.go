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

// errNoEngine reports that there is no engine to share limits through.
var errNoEngine = errors.New("no server to share limits through: install Redis (redis-server) or Valkey (valkey-server), or name one " +
	"that runs with -redis redis://127.0.0.1:6379")

// openEngine returns the URL of the engine, the server that keeps the shared limits. If url is empty, it starts an
// engine and returns it, too; otherwise own is nil. Errors do not contain the URL, because it may contain a password.
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
	// Return the error that a bot would get from this server.
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

// application returns a new name, under which nothing is shared yet.
func application() string { return fmt.Sprintf("ratelight-bench-%x", rand.Uint64()) }

// snapshot saves the present state of the engine.
func snapshot(engine *redistest.Engine) error {
	if _, err := engine.Do("SAVE"); err != nil {
		return err
	}
	return os.Rename(dump(engine), dump(engine)+".old")
}

// rollBack restarts the engine with the state of the snapshot.
func rollBack(ctx context.Context, engine *redistest.Engine) error {
	if err := os.Rename(dump(engine)+".old", dump(engine)); err != nil {
		return err
	}
	defer os.Remove(dump(engine))
	return engine.Restart(ctx)
}

// dump returns the path of the file that an engine reads when it starts.
func dump(engine *redistest.Engine) string { return filepath.Join(engine.Directory(), "dump.rdb") }
