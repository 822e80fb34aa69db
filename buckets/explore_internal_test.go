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

// The core is explored exhaustively in small worlds: all orders of events up to a length. Breadth first, so that the
// first counter-example is the shortest. A manager cannot be copied, so each state is a list of events that is played
// from the start.
//
// RATELIGHT_EXPLORE=1 explores some hundred thousand states, which takes two processors some minutes.
// RATELIGHT_EXPLORE_STORY="world: 4 8 0" tells one story, as a counter-example prints it.

var smallWorlds = []smallWorld{
	{
		name: "two routes", kinds: []kind{{0, ""}, {1, ""}}, evicts: true, depth: 5, deeper: 7,
		answers: []answer{ok, otherHash, user, shared, subLimit, lost, notSent},
	},
	{
		name: "gates", kinds: []kind{{0, ""}, {1, ""}}, global: 2, depth: 5, deeper: 7,
		answers: []answer{ok, user, global, edge, lost, notSent},
	},
	{
		name: "declared limit", kinds: []kind{{0, ""}, {1, ""}}, declared: 2, depth: 4, deeper: 6, evicts: true,
		answers: []answer{ok, user, shared, global, lost, notSent},
	},
	{
		name: "tenants", kinds: []kind{{0, "a"}, {0, "b"}, {1, "a"}}, declared: 2, depth: 4, deeper: 6,
		answers: []answer{ok, otherHash, subLimit, global, lost},
	},
}

// node is a state: the event that led to it from another one, and what can happen there.
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

// isNew reports that a state has not been met before.
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

// play lets events happen one after the other.
func play(w *smallWorld, story []event, tells bool) *life {
	l := newLife(w)
	l.tells = tells
	for _, e := range story {
		if l.possible()&(1<<e) == 0 {
			l.fail("event %d is not possible, although it was when the same happened before", e)
			return l
		}
		if l.do(e); l.fault != "" {
			return l
		}
	}
	return l
}

// explore explores all stories of a length, and returns the shortest that goes wrong, nil if none does.
func (x *explorer) explore(depth int, until time.Time) (counterExample []event) {
	x.nodes = []node{{possible: newLife(x.world).possible()}}
	from := 0
	for length := 1; length <= depth && from < len(x.nodes); length++ {
		to := len(x.nodes)
		var next atomic.Int64
		next.Store(int64(from))
		var mu sync.Mutex
		var wrong [][]event
		var found []node
		var all sync.WaitGroup
		for range runtime.GOMAXPROCS(0) {
			all.Go(func() {
				var mine []node
				for {
					n := int(next.Add(1) - 1)
					if n >= to || time.Now().After(until) {
						break
					}
					before := x.storyOf(int32(n))
					for e := event(0); e < events; e++ {
						if x.nodes[n].possible&(1<<e) == 0 {
							continue
						}
						story := append(before, e)
						if child, fault := x.visit(story); fault {
							mu.Lock()
							wrong = append(wrong, slices.Clone(story))
							mu.Unlock()
						} else if child != nil {
							child.before, child.event = int32(n), e
							mine = append(mine, *child)
						}
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

// visit plays a story. It returns nil if its end is a state that is known.
func (x *explorer) visit(story []event) (child *node, fault bool) {
	x.played.Add(1)
	l := play(x.world, story, false)
	if l.fault != "" {
		return nil, true
	}
	digest := l.digest()
	if !x.isNew(digest) {
		return nil, false
	}
	child = &node{possible: l.possible()}
	l.finish(digest)
	return child, l.fault != ""
}

// finish looks whether a state is a good one. To look for somebody who could leave may mend what is wrong, so only
// every other state is
// looked at for that.
func (l *life) finish(digest uint64) {
	if digest&1 == 0 {
		l.lookAgain()
	}
	l.drain()
}

// lookAgain looks again at all that wait: none of them may be able to leave.
func (l *life) lookAgain() {
	s := l.server
	s.mu.Lock()
	now := s.now()
	s.touch(&s.edgeLine)
	for _, a := range s.accounts {
		s.touch(&a.globalLine)
		for _, d := range a.declared {
			s.touch(&d.line)
		}
	}
	for _, b := range s.busy {
		b.changed()
	}
	s.unlock(now)
	l.granted = l.granted[:0]
	before := l.count(waits)
	l.settle()
	if l.count(waits) != before {
		l.fail("somebody could have left before, and was not looked at")
	}
}

// tell returns a story in words, up to what goes wrong, or with its end if nothing does.
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
	return fmt.Sprintf("%s\nTo tell it again: RATELIGHT_EXPLORE_STORY=%q", strings.Join(l.story, "\n"), again)
}

func TestNoOrderOfEventsGoesWrong(t *testing.T) {
	t.Parallel()
	if wanted := os.Getenv("RATELIGHT_EXPLORE_STORY"); wanted != "" {
		tellWanted(t, wanted)
		return
	}
	if os.Getenv("RATELIGHT_EXPLORE") != "" {
		defer debug.SetGCPercent(debug.SetGCPercent(400)) // everything that a story makes is garbage after it
	}
	states := 0
	for _, w := range smallWorlds {
		t.Run(w.name, func(t *testing.T) {
			depth := w.depth
			if os.Getenv("RATELIGHT_EXPLORE") != "" {
				depth = w.deeper
			}
			x, start := &explorer{world: &w}, time.Now()
			wrong := x.explore(depth, start.Add(time.Hour))
			states += len(x.nodes)
			t.Logf("%d states of %d stories, in %v", len(x.nodes), x.played.Load(), time.Since(start).Round(time.Millisecond))
			if wrong != nil {
				t.Errorf("%d events that go wrong:\n%s", len(wrong), tell(&w, wrong))
			}
		})
	}
	t.Logf("%d states", states)
}

func tellWanted(t *testing.T, wanted string) {
	name, numbers, _ := strings.Cut(wanted, ": ")
	for _, w := range smallWorlds {
		if w.name != name {
			continue
		}
		var story []event
		for _, text := range strings.Fields(numbers) {
			var e event
			if _, err := fmt.Sscan(text, &e); err != nil || e >= events {
				t.Fatalf("no event: %q", text)
			}
			story = append(story, e)
		}
		t.Log("\n" + tell(&w, story))
		return
	}
	t.Fatalf("no world: %q", name)
}
