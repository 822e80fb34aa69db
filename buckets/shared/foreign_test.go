package shared_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
)

const bucketKey = "rl2:{default}:b:0123456789abcdef/hash/1" // the key for someKey

// Another program, or another version of the protocol, has stored a value under a key. Requests must fail with an error
// that names the key, and the value must not be replaced. After the value was deleted, requests must be sent again.
func TestForeignValues(t *testing.T) {
	const foreignType = "" // stands for a value that is no string
	uses := map[string]func(p *process) (err func() error, served func() bool){
		"b:0123456789abcdef/hash/1": useBucket,
		"e":                         useBucket,
		"d:bot:" + route: func(p *process) (func() error, func() bool) {
			d := p.finder("bot")
			d.ask()
			return d.Err, d.may
		},
		"g:bot": func(p *process) (func() error, func() bool) {
			s := p.sender(50)
			s.send(1)
			return s.global.Err, func() bool { return s.waiting() == 0 }
		},
		"i": func(p *process) (func() error, func() bool) {
			p.session.Invalid()
			return nil, func() bool { return strings.Contains(p.server.Value("rl2:{default}:i"), `"told":1`) }
		},
	}
	for key, use := range uses {
		values := []string{foreignType, "mine", "mine 1", "1.1 mine", "1.1 null"}
		if key == "g:bot" {
			values = append(values, `1.1 {"users":{"x":{"part":-1}}}`)
		}
		for _, value := range values {
			eachAtOnce(t, key+" "+value, func(t *testing.T, w *world) {
				key := "rl2:{default}:" + key
				if value == foreignType {
					w.server.SetForeign(key)
				} else {
					w.server.Set(key, value)
				}
				p := w.process()
				err, served := use(p)
				pass(5 * time.Second)
				assert.False(t, served())
				assert.Equal(t, value, w.server.Value(key))
				if err != nil {
					var wrong *shared.KeyError
					require.ErrorAs(t, err(), &wrong)
					assert.Equal(t, key, wrong.Key)
					assert.NotEmpty(t, wrong.Problem)
					assert.NotErrorIs(t, err(), shared.ErrOutage)
				}
				w.server.Flush()
				pass(1100 * ms)
				if err != nil {
					assert.NoError(t, err())
				}
				assert.True(t, served())
			})
		}
	}
}

func TestDivisionWithoutUsersIsEmpty(t *testing.T) {
	atOnce(t, func(w *world) {
		w.server.Set("rl2:{default}:g:bot", `1.1 {"users":null}`)
		w.sender(50).send(1)
		pass(5 * time.Second)
		assert.Zero(t, w.processes[0].senders[0].waiting())
	})
}

func useBucket(p *process) (err func() error, served func() bool) {
	u := p.use(someKey)
	u.join(1)
	return u.bucket.Err, func() bool { return u.served(1) }
}

// A stored state contains wrong bytes. Requests in its bucket must fail with an error or be sent, and no other bucket
// may be affected.
func TestDamagedStateStopsNoOtherBucket(t *testing.T) {
	for _, wrong := range []byte{0, '7', 0xff} {
		for place := range 40 {
			eachWorld(t, fmt.Sprint(wrong, " ", place), func(t *testing.T, w *world) {
				a, _ := w.limited(shared.WithOutage(shared.OutageFail))
				value := w.server.Value(bucketKey)
				require.NotEmpty(t, value)
				changed := []byte(value)
				if at := place * len(value) / 20; place < 20 {
					changed[at] = wrong
				} else {
					changed = append(changed[:at-len(value)], wrong) // the rest of the value is missing
				}
				w.server.Set(bucketKey, string(changed))
				a.join(1)
				other := a.process.use(elsewhere)
				other.join(1)
				for range 15 {
					pass(time.Second)
					for a.inFlight() > 0 {
						a.answer(headers(5, 1, 500*ms, int64(w.now()/time.Second)*1000))
					}
				}
				a.mu.Lock()
				defer a.mu.Unlock()
				for _, err := range append(a.errs, other.errs...) {
					assert.ErrorAs(t, err, new(*shared.KeyError))
				}
				assert.True(t, other.lent)
				other.giveBack(other.window.State(w.now()))
			})
		}
	}
}

// garbler is a connection. While garbage is set, it puts arbitrary values and times into replies.
type garbler struct {
	server
	mu      sync.Mutex
	random  *rand.Rand
	garbage bool
}

func (g *garbler) set(garbage bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.garbage = garbage
}

func (g *garbler) Exchange(ctx context.Context, call *shared.Call) (*shared.Reply, error) {
	reply, err := g.server.Exchange(ctx, call)
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.garbage || err != nil {
		return reply, err
	}
	sometimes := func() bool { return g.random.IntN(3) == 0 }
	const year = 365 * 24 * time.Hour
	some := func(longest time.Duration) time.Duration {
		times := []time.Duration{0, 1, ms, time.Hour, time.Since(time.Unix(0, 0)), longest}
		return times[g.random.IntN(len(times))]
	}
	if sometimes() {
		reply.Values = make([]shared.Loaded, g.random.IntN(8))
	}
	if sometimes() {
		reply.Time = some(100 * year) // the latest time that a reply of OnScripts can contain
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

// A session must continue to make calls whatever the server replies. Requests must be sent again when the replies are
// correct again.
func TestGarbageInRepliesStopsNothing(t *testing.T) {
	for seed := range uint64(12) {
		inWorld(t, func(w *world) {
			g := &garbler{server: w.server, random: rand.New(rand.NewPCG(seed, 0)), garbage: true}
			p := w.join(g, realClock)
			global, discovery := p.session.Global("bot", 50, func() {}), p.finder("bot")
			u := p.use(someKey)
			for range 20 {
				u.join(1)
				global.Need(w.now(), 1, 0)
				discovery.ask()
				p.session.Invalid()
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
			g.set(false)
			w.server.Flush()
			pass(15 * time.Second)
			if u.lent {
				u.giveBack(u.window.State(w.now()))
			}
			other := p.use(elsewhere)
			other.join(1)
			pass(10 * time.Second)
			assert.True(t, other.served(1), "seed %d", seed)
		})
	}
}

// eager is a connection to a faulty engine, whose replies say that even steps that only load have replaced the value.
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

func TestStepThatOnlyLoadsReplacesNothingWhateverTheReplySays(t *testing.T) {
	inWorld(t, func(w *world) {
		var all []shared.Global
		for _, p := range []*process{w.join(eager{w.server}, realClock), w.process()} {
			global := p.session.Global("bot", 50, func() {})
			time.AfterFunc(time.Second, func() { global.Need(w.now(), 200, 0) })
			all = append(all, global)
		}
		pass(10 * time.Second)
		for _, global := range all {
			assert.NoError(t, global.Err())
		}
	})
}
