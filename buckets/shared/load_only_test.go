package shared_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
)

// eager is a connection to a faulty engine, whose replies say that steps which only load have replaced the value.
type eager struct{ server }

func (e eager) Exchange(ctx context.Context, call *shared.Call) (*shared.Reply, error) {
	reply, err := e.server.Exchange(ctx, call)
	if err == nil {
		for i := range reply.Values {
			if step := call.Steps[i]; step.Value == "" && strings.Contains(step.Key, ":g:") {
				reply.Values[i] = shared.Loaded{Replaced: true}
			}
		}
	}
	return reply, err
}

// A step that only loads replaces nothing, whatever a reply says.
func TestReplyThatReplacesWhatWasOnlyLoadedIsMalformed(t *testing.T) {
	inWorld(t, func(w *world) {
		store, err := shared.New(eager{w.server})
		require.NoError(t, err)
		for _, session := range []shared.Session{store.Join(clockwork.NewRealClock(), w.start), w.process().session} {
			defer session.Close()
			global := session.Global("bot", 50, func() {})
			defer func() { require.NoError(t, global.Err()) }()
			time.AfterFunc(time.Second, func() { global.Need(w.now(), 200, 0) })
		}
		pass(10 * time.Second)
	})
}
