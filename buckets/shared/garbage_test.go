package shared_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
)

// garbler is a connection to a faulty server, which sometimes replies with random values and times.
type garbler struct {
	server
	mu     sync.Mutex
	random *rand.Rand
	on     bool
}

func (g *garbler) talk(garbage bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.on = garbage
}

func (g *garbler) Exchange(ctx context.Context, call *shared.Call) (*shared.Reply, error) {
	reply, err := g.server.Exchange(ctx, call)
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.on || err != nil {
		return reply, err
	}
	sometimes := func() bool { return g.random.IntN(3) == 0 }
	const year = 365 * 24 * time.Hour
	some := func(longest time.Duration) time.Duration {
		times := []time.Duration{0, 1, time.Millisecond, time.Hour, time.Since(time.Unix(0, 0)), longest}
		return times[g.random.IntN(len(times))]
	}
	if sometimes() {
		reply.Values = make([]shared.Loaded, g.random.IntN(8))
	}
	if sometimes() {
		reply.Time = some(100 * year) // the most of a reply of OnScripts
	}
	reply.Late = sometimes()
	for i := range reply.Values {
		loaded := &reply.Values[i]
		if sometimes() {
			loaded.Life = some(10 * year)
		}
		if sometimes() {
			loaded.Replaced = i < len(call.Steps) && call.Steps[i].Value != "" && !loaded.Replaced
		}
		if sometimes() {
			text := []byte(loaded.Value)
			for range len(text)/10 + 1 {
				at := g.random.IntN(len(text) + 1)
				text = append(text[:at], byte(g.random.IntN(256)))
			}
			loaded.Value = string(text)
		}
	}
	return reply, nil
}

// TestGarbageStopsNobody tests that a manager survives any replies, and continues when the server's replies are correct
// again.
func TestGarbageStopsNobody(t *testing.T) {
	for seed := range uint64(12) {
		inWorld(t, func(w *world) {
			g := &garbler{server: w.server, random: rand.New(rand.NewPCG(seed, 0))}
			store, err := shared.New(g)
			require.NoError(t, err)
			session := store.Join(clockwork.NewRealClock(), w.start)
			p := &process{world: w, session: session, link: &link{server: w.server}}
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
