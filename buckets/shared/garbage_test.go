package shared_test

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/redistest"
)

// garbler is a way to a server that is none: now and then its replies are lists of any numbers.
type garbler struct {
	*redistest.Memory
	mu     sync.Mutex
	random *rand.Rand
	on     bool
}

func (g *garbler) talk(garbage bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.on = garbage
}

func (g *garbler) Run(ctx context.Context, script *shared.Script, keys []string, arguments ...string) ([]int64, error) {
	reply, err := g.Memory.Run(ctx, script, keys, arguments...)
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.on || err != nil {
		return reply, err
	}
	some := []int64{0, 1, 2, 5, -1, math.MaxInt64, math.MinInt64, math.MaxInt64 - 18, 1 << 40}
	if g.random.IntN(2) == 0 {
		reply = make([]int64, g.random.IntN(40))
	}
	for i := range reply {
		if g.random.IntN(3) == 0 {
			reply[i] = some[g.random.IntN(len(some))]
		}
	}
	return reply, nil
}

// TestGarbageStopsNobody tests that a manager outlives whatever the server says, and goes on when it talks sense again.
func TestGarbageStopsNobody(t *testing.T) {
	for seed := range uint64(12) {
		inWorld(t, func(w *world) {
			g := &garbler{Memory: w.server, random: rand.New(rand.NewPCG(seed, 0))}
			store, err := shared.New(shared.OnScripts(g))
			require.NoError(t, err)
			session := store.Join(clockwork.NewRealClock(), w.start)
			p := &process{world: w, session: session, link: &link{Memory: w.server}}
			w.processes = append(w.processes, p)
			global := session.Global("bot", 50, func() {})
			discovery := session.Discovery("bot", "GET /", func() {})
			g.talk(true)
			u := p.use(someKey)
			for range 20 {
				u.join(1)
				global.Need(w.now(), 1, 0)
				discovery.Ask(w.now())
				session.Invalid()
				part, _ := global.Part(w.now())
				assert.LessOrEqual(t, part, 50)
				for u.inFlight() > 0 {
					u.answer(headers(5, 1, 500*ms, int64(w.now()/time.Second)*1000))
				}
				if u.lent && u.wanted() {
					u.giveBack(u.window.State(w.now()))
				}
				pass(700 * ms)
			}
			g.talk(false)
			w.server.Flush()
			pass(15 * time.Second)
			if u.lent {
				u.giveBack(u.window.State(w.now()))
			}
			other := p.use(shared.Key{Hash: "other"})
			other.join(1)
			pass(10 * time.Second)
			assert.True(t, other.served(1), "seed %d", seed)
		})
	}
}
