package buckets

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// In small worlds, the explorer tries all sequences of events (stories) up to a certain length. It searches breadth
// first, so the first counter-example is a shortest one. A state is stored as the list of events that leads to it. To
// visit a state, the explorer plays this list once from the start. Before each event that it tries there, it restores
// the state.
//
// With RATELIGHT_EXPLORE=1 the explorer visits almost three million states. On two processors this takes about a minute
// and a half. RATELIGHT_EXPLORE_STORY="world: 4 8 0" prints one story in words. The report of a counter-example ends
// with the value of this variable that prints the story of the counter-example.

var smallWorlds = []smallWorld{
	{
		name: "two routes", kinds: []kind{{route: 0}, {route: 1}}, evicts: true, depth: 5, deeper: 7,
		answers: []answer{ok, otherHash, user, ofResource, subLimit, lost, notSent},
	},
	{
		name: "gates", kinds: []kind{{route: 0}, {route: 1}}, global: 2, depth: 5, deeper: 7,
		answers: []answer{ok, user, global, edge, lost, notSent},
	},
	{
		name: "declared limit", kinds: []kind{{route: 0}, {route: 1}}, declared: true, depth: 4, deeper: 7, evicts: true,
		answers: []answer{ok, user, ofResource, global, lost, notSent},
	},
	{
		name: "tenants", kinds: []kind{{route: 0, tenant: "a"}, {route: 0, tenant: "b"}, {route: 1, tenant: "a"}},
		declared: true, depth: 4, deeper: 7,
		answers: []answer{ok, otherHash, subLimit, global, lost},
	},
	{
		name: "superseded", kinds: []kind{{route: 0, key: "k"}, {route: 0}, {route: 0, tenant: "a", key: "k"}},
		declared: true, depth: 5, deeper: 7,
		answers: []answer{ok, otherHash, user, subLimit, notSent},
	},
}

// node is a state: the index of the previous state, the event that led from the previous state to this one, and a bit
// for each event that is possible in this state.
type node struct {
	before   int32
	event    event
	possible uint64
}

// explorer explores one world.
type explorer struct {
	world *smallWorld
	nodes []node
	seen  [64]struct {
		sync.Mutex
		digests map[uint64]struct{}
	}
	played atomic.Int64
}

// isNew reports whether a state has not been visited before, and marks it as visited.
func (x *explorer) isNew(digest uint64) bool {
	s := &x.seen[digest>>58]
	s.Lock()
	defer s.Unlock()
	if s.digests == nil {
		s.digests = make(map[uint64]struct{})
	}
	if _, ok := s.digests[digest]; ok {
		return false
	}
	s.digests[digest] = struct{}{}
	return true
}

// storyOf returns the events that led to a state.
func (x *explorer) storyOf(n int32) (all []event) {
	for ; n > 0; n = x.nodes[n].before {
		all = append(all, x.nodes[n].event)
	}
	slices.Reverse(all)
	return all
}

// play starts a life in a world and lets the events of a story happen. It stops at the first fault.
func play(w *smallWorld, story []event, tells bool) *life {
	l := newLife(w)
	l.tells = tells
	for _, e := range story {
		if l.possible()&(1<<e) == 0 {
			l.fail("event %d is not possible, although it was possible in an earlier run of this story", e)
			return l
		}
		if l.do(e); l.fault != "" {
			return l
		}
	}
	return l
}

// explore tries all stories up to a length. It returns the shortest story with a fault, or nil if there is none.
func (x *explorer) explore(depth int) (counterExample []event) {
	x.nodes = []node{{possible: newLife(x.world).possible()}}
	lives := make([]*savedLife, runtime.GOMAXPROCS(0))
	for i := range lives {
		lives[i] = newSavedLife(x.world)
	}
	from := 0
	for length := 1; length <= depth && from < len(x.nodes); length++ {
		to := len(x.nodes)
		var next atomic.Int64
		next.Store(int64(from))
		var mu sync.Mutex
		var wrong [][]event
		var found []node
		var all sync.WaitGroup
		for _, l := range lives {
			all.Go(func() {
				var mine []node
				for {
					n := int(next.Add(1) - 1)
					if n >= to {
						break
					}
					before := x.storyOf(int32(n))
					l.goTo(before)
					digest := l.life.digest(&l.digest)
					for e := event(0); e < events; e++ {
						if x.nodes[n].possible&(1<<e) == 0 {
							continue
						}
						if child, fault := x.visit(l, e); fault {
							mu.Lock()
							wrong = append(wrong, append(slices.Clone(before), e))
							mu.Unlock()
						} else if child != nil {
							child.before, child.event = int32(n), e
							mine = append(mine, *child)
						}
					}
					if l.state.restore(); l.life.digest(&l.digest) != digest {
						panic("a state cannot be restored: a part of it is not saved")
					}
				}
				mu.Lock()
				defer mu.Unlock()
				found = append(found, mine...)
			})
		}
		all.Wait()
		if len(wrong) > 0 {
			return slices.MinFunc(wrong, func(a, b []event) int { return slices.CompareFunc(a, b, cmp.Compare[event]) })
		}
		from = to
		x.nodes = append(x.nodes, found...)
	}
	return nil
}

// visit lets an event happen in a state. It returns nil if the event leads to a known state. Because lookAgain may
// repair a fault, visit calls drain first. Then visit restores the state, repeats the event and calls lookAgain.
func (x *explorer) visit(l *savedLife, e event) (child *node, fault bool) {
	x.played.Add(1)
	l.state.restore()
	if l.do(e); l.fault != "" {
		return nil, true
	}
	if !x.isNew(l.life.digest(&l.digest)) {
		return nil, false
	}
	child = &node{possible: l.possible()}
	if l.drain(); l.fault != "" {
		return child, true
	}
	l.state.restore()
	l.do(e)
	l.lookAgain()
	return child, l.fault != ""
}

// savedLife is a life whose states can be saved and restored.
type savedLife struct {
	*life
	begin, state *objectGraph
	digest       digest
}

func newSavedLife(w *smallWorld) *savedLife {
	l := newLife(w)
	l.possible()
	begin := saveState(l)
	return &savedLife{life: l, begin: begin}
}

// goTo plays a story from the start and saves the state at the end of the story. visit restores that state for each
// event.
func (l *savedLife) goTo(story []event) {
	l.begin.restore()
	for _, e := range story {
		l.do(e)
	}
	l.state = saveState(l.life)
}

// lookAgain makes the server check all waiting requests again. If a request leaves because of that, the server had
// missed that the request could leave, which is a fault.
func (l *life) lookAgain() {
	s := l.server
	s.mu.Lock()
	now := s.now()
	s.touchAll()
	s.unlock(now)
	l.granted = l.granted[:0]
	before := l.count(waits)
	l.settle()
	if l.count(waits) != before {
		l.fail("a waiting request could have left earlier, but the server did not check it")
	}
}

// tell returns a story in words. A story with a fault ends at the fault. Any other story is followed by a call of
// drain.
func tell(w *smallWorld, story []event) string {
	l := play(w, story, true)
	l.drain()
	if l.fault == "" {
		if looked := play(w, story, true); looked.fault == "" {
			if looked.lookAgain(); looked.fault != "" {
				l = looked
			}
		}
	}
	again := w.name + ": " + strings.Trim(fmt.Sprint(story), "[]")
	return fmt.Sprintf("%s\nTo print this story again: RATELIGHT_EXPLORE_STORY=%q", strings.Join(l.story, "\n"), again)
}

func TestNoOrderOfEventsGoesWrong(t *testing.T) {
	t.Parallel()
	if wanted := os.Getenv("RATELIGHT_EXPLORE_STORY"); wanted != "" {
		tellWanted(t, wanted)
		return
	}
	if os.Getenv("RATELIGHT_EXPLORE") != "" {
		defer debug.SetGCPercent(debug.SetGCPercent(1600)) // after a story, all its memory is garbage
	}
	states := 0
	for _, w := range smallWorlds {
		t.Run(w.name, func(t *testing.T) {
			depth := w.depth
			if os.Getenv("RATELIGHT_EXPLORE") != "" {
				depth = w.deeper
			}
			x, start := &explorer{world: &w}, time.Now()
			wrong := x.explore(depth)
			states += len(x.nodes)
			t.Logf("%d states of %d stories, in %v", len(x.nodes), x.played.Load(),
				time.Since(start).Round(time.Millisecond))
			if wrong != nil {
				t.Errorf("a story of %d events goes wrong:\n%s", len(wrong), tell(&w, wrong))
			}
		})
	}
	t.Logf("%d states", states)
}

func tellWanted(t *testing.T, wanted string) {
	name, numbers, _ := strings.Cut(wanted, ": ")
	w := worldOf(name)
	if w == nil {
		t.Fatalf("no world: %q", name)
	}
	var story []event
	for _, text := range strings.Fields(numbers) {
		var e event
		if _, err := fmt.Sscan(text, &e); err != nil || e >= events {
			t.Fatalf("not an event: %q", text)
		}
		story = append(story, e)
	}
	t.Log("\n" + tell(w, story))
}

// worldOf returns the world with this name, or nil.
func worldOf(name string) *smallWorld {
	for i := range smallWorlds {
		if smallWorlds[i].name == name {
			return &smallWorlds[i]
		}
	}
	return nil
}

// mendedStories are counter-examples that the explorer found. Their bugs have been fixed.
var mendedStories = []struct {
	what  string
	world string
	story []event
}{
	{
		"the hold of a sub-limit was forgotten when its requests joined a foreign bucket",
		"two routes", []event{4, 5, 10, 3, 12, 18},
	},
	{
		"a request in a foreign bucket did not learn of the hold of its sub-limit",
		"two routes", []event{4, 4, 5, 0, 21, 28, 9},
	},
	{
		"lost requests were not charged if only a 429 of a resource had named the limit",
		"two routes", []event{4, 4, 5, 11, 33, 3, 4},
	},
}

func TestMendedStories(t *testing.T) {
	t.Parallel()
	for _, mended := range mendedStories {
		t.Run(mended.what, func(t *testing.T) {
			w := worldOf(mended.world)
			l := play(w, mended.story, false)
			if l.drain(); l.fault != "" {
				t.Errorf("%s:\n%s", l.fault, tell(w, mended.story))
			}
		})
	}
}
