package shared

import (
	"errors"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	// discoveryTime bounds one attempt to discover a hash. After that time another process may try.
	discoveryTime = 10 * time.Second
	// hintTime is how long the server stores the hash of a route after a process last asked for it.
	hintTime = 24 * time.Hour
	// hintSlack is the part of hintTime that may have passed before a process that asks for the hash starts hintTime
	// again.
	hintSlack = time.Hour
)

// found is what the server stores about a route: either the bucket hash, or the discovery with the permission and the
// sessions that wait for the result of this discovery. A value without a hash expires when sessionTime has passed since
// the discovery last renewed it.
type found struct {
	Hash    string   `json:"hash,omitempty"`
	Finder  string   `json:"finder,omitempty"` // "session:number" of the discovery that has the permission
	Waiting []string `json:"waiting,omitempty"`
}

// discovery discovers the bucket hash of one route. Only one process at a time has the permission to do so.
//
//	idle     the process does not need the hash
//	asking   the process needs the permission or the hash, and asks until it has one of them
//	given    the process has the permission, and has not used it; after ten seconds it asks again
//	finding  the process has used the permission, and has to report the result within ten seconds
//	telling  the end of the permission has to be reported to the server
type discovery struct {
	session *session
	name    string // name of the route, the same in all processes
	buckets string // the text before the hash in the names of the route's buckets
	who     string // the value of Finder if this discovery has the permission

	mu      sync.Mutex
	changed func() // nil: no caller uses it
	asking  bool
	given   bool
	finding bool
	ends    time.Duration // when given or finding ends
	telling bool
	renews  bool   // the hash was read from the server, and only has to be stored for longer
	found   string // the hash to report, empty if none was found
	hash    string
	cell    cell          // its value has the type found
	expires time.Duration // when the server lets the value expire
	contest contest
	out     bool // the server is away
	err     error
	calls   repeater
}

func (s *session) Discovery(credential, route string, changed func()) Discovery {
	p := &s.parts
	name := credential + ":" + route
	d := &discovery{
		session: s, name: name, buckets: credential + "/", cell: cell{key: s.store.keys.name("d", name)},
		who: s.id + ":" + strconv.FormatInt(p.number.Add(1), 10), changed: changed,
	}
	d.calls = repeater{session: s, lock: &d.mu, once: d.once}
	p.mu.Lock()
	defer p.mu.Unlock()
	d.out = p.out
	p.discoveries[d] = struct{}{}
	return d
}

// Ask asks for the permission to discover the hash.
func (d *discovery) Ask(time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.changed == nil || d.given || d.finding {
		return
	}
	d.asking = true
	d.calls.call()
}

func (d *discovery) May(now time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.given && now <= d.ends || d.asking && d.out && d.session.store.options.outage >= OutageShare
}

// Sent uses up the permission.
func (d *discovery) Sent(now time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asking, d.given, d.finding, d.ends = false, false, true, now+discoveryTime
}

// Hash returns the hash that another process has found, empty if the hash is not known.
func (d *discovery) Hash() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hash
}

// Found ends the permission. hash is empty if no hash was found.
func (d *discovery) Found(_ time.Duration, hash string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.given || d.finding {
		d.tell(hash)
	}
}

// tell reports the end of the permission to the server. d.mu must be held.
func (d *discovery) tell(hash string) {
	d.asking, d.given, d.finding = false, false, false
	d.telling, d.found = true, hash
	d.calls.call()
}

// Err returns why there is no permission, nil if requests may wait for one.
func (d *discovery) Err() error {
	d.mu.Lock()
	err, out := d.err, d.out
	d.mu.Unlock()
	if ended := d.session.endedErr(); ended != nil {
		return ended
	}
	if err == nil && out {
		return d.session.refusalErr()
	}
	return err
}

// Close ends the use of the discovery.
func (d *discovery) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed = nil
	if d.asking || d.given || d.finding {
		d.tell("")
	}
	if !d.telling {
		d.forget()
	}
}

// forget removes the discovery from the session. d.mu must be held.
func (d *discovery) forget() {
	d.calls.stop()
	p := &d.session.parts
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.discoveries, d)
}

// told records a value that another session has sent by message.
func (d *discovery) told(value string) {
	var f found
	if content(value, &f) != nil {
		return
	}
	d.mu.Lock()
	asked, changed := d.asking, d.changed
	if asked && f.Hash != "" {
		d.cell.value, d.hash, d.asking = value, f.Hash, false
	} else if asked {
		d.calls.call()
	}
	d.mu.Unlock()
	if asked && f.Hash != "" && changed != nil {
		changed()
	}
}

// watch records the start and the end of an outage.
func (d *discovery) watch() {
	d.mu.Lock()
	d.out, _ = d.session.away() // the call of watch may be late, so read the current state
	changed := d.changed
	if d.asking || d.telling {
		d.calls.call()
	}
	d.mu.Unlock()
	if changed != nil {
		changed()
	}
}

// once makes one call, and returns the wait until the next call.
func (d *discovery) once() time.Duration { return d.speak(d.session.exchange) }

func (d *discovery) speak(exchange exchange) (wait time.Duration) {
	d.mu.Lock()
	// Report the outcomes and holds of the route's buckets first: a process that learns the hash must find them there.
	if d.telling && d.found != "" {
		begin := d.buckets + d.found + "/"
		d.mu.Unlock()
		d.session.settle(begin)
		d.mu.Lock()
	}
	wants, hash, asked := d.wants(), d.found, d.asking
	if wants == "" {
		d.mu.Unlock()
		return never
	}
	step := d.compose(wants)
	d.mu.Unlock()
	r, err := exchange("discover", d.session.eraNumber(), step)
	d.mu.Lock()
	if err == nil && !r.anew {
		var f found
		settled := d.cell.took(&step, r.values[0])
		d.expires = r.received + r.values[0].Life
		if r.values[0].Replaced {
			d.expires = r.sent + step.Life
		}
		d.contest.ended(!settled, &r)
		if err = d.session.content(&d.cell, &f); err == nil {
			wait = d.heard(wants, hash, &f, &r, settled)
		}
	}
	if err != nil {
		wait = d.failed(wants, err)
	}
	changed := d.changed
	d.mu.Unlock()
	if changed != nil && asked {
		changed()
	}
	return wait
}

// wants returns the purpose of the next call: "found", "ask", "keep" or "end". It returns "" if no call is needed. d.mu
// must be held.
func (d *discovery) wants() string {
	switch {
	case d.telling:
		return "found"
	case d.asking:
		return "ask"
	case !d.given && !d.finding:
		return ""
	case d.session.now() <= d.ends:
		return "keep"
	}
	if d.given { // the permission was not used in time, so ask for it again
		d.given, d.asking = false, true
	}
	var f found
	_ = content(d.cell.value, &f) // cannot fail: read before
	switch {
	case f.Finder == d.who: // let another process try
		return "end"
	case d.asking:
		return "ask"
	}
	return ""
}

// compose returns the step of a call. d.mu must be held.
func (d *discovery) compose(wants string) Step {
	mine := d.session.id
	var f found
	_ = content(d.cell.value, &f) // cannot fail: read before
	next, life := f, sessionTime
	again := d.renews && f.Hash == d.found // the server only has to store the hash for longer
	free := f.Hash == "" && (f.Finder == "" || f.Finder == d.who)
	switch {
	case wants == "found" && d.found != "" && (again || !d.renews):
		next, life = found{Hash: d.found}, hintTime
	case (wants == "found" || wants == "end") && f.Finder == d.who:
		next, life = found{}, time.Millisecond // the server need not store anything
	case free && (wants == "ask" || wants == "keep"):
		next.Finder, again = d.who, true
	case wants == "ask" && f.Hash == "" && !slices.Contains(f.Waiting, mine):
		next.Waiting, life = append(slices.Clone(f.Waiting), mine), max(d.expires-d.session.now(), time.Millisecond)
	}
	step := Step{Key: d.cell.key}
	if again || !reflect.DeepEqual(next, f) {
		step = d.cell.replace(next, life)
	}
	if next.Waiting == nil { // the sessions that waited for the result need not wait any longer
		told := slices.DeleteFunc(slices.Clone(f.Waiting), func(session string) bool { return session == mine })
		step.Channels, step.Message = d.session.channels(told), "found "+withName(d.name)
	}
	return step
}

// heard records a reply, and returns the wait until the next call. hash is the hash that the call reported. settled is
// false if the call had no effect because another session was faster. d.mu must be held.
func (d *discovery) heard(wants, hash string, f *found, r *reply, settled bool) time.Duration {
	d.err = nil
	life := r.values[0].Life
	if f.Hash != "" {
		d.hash = f.Hash
	}
	switch {
	case wants == "found":
		if d.found == hash && (settled || d.renews && f.Hash == hash && life >= hintTime-hintSlack) {
			d.telling, d.renews = false, false
		}
		if d.changed == nil && !d.telling {
			d.forget()
		}
		return 0 // perhaps another result has to be reported
	case wants == "keep" && !settled:
		return d.contest.pause()
	case wants != "ask" || !d.asking:
		return beatPeriod
	case f.Hash != "":
		if d.asking = false; life >= hintTime-hintSlack {
			return never
		}
		d.telling, d.renews, d.found = true, true, f.Hash
		return 0
	case f.Finder == d.who:
		d.asking, d.given, d.ends = false, true, d.session.now()+discoveryTime
	case f.Finder == "":
		return 0
	case !settled:
		return d.contest.pause()
	}
	return beatPeriod
}

// failed records that a call failed, and returns the wait until the next call. d.mu must be held.
func (d *discovery) failed(wants string, err error) (wait time.Duration) {
	if wants == "found" && d.found == "" && d.changed == nil && !errors.Is(err, ErrClosed) {
		d.telling = false
		d.forget() // the server's value with the permission expires by itself
	}
	var outage *OutageError
	var key *KeyError
	switch {
	case errors.Is(err, ErrClosed):
		return never
	case errors.As(err, &key):
		d.err = err
	case !errors.As(err, &outage):
		return firstRepeat
	}
	return beatPeriod
}

// last reports the end of the permission when the session ends.
func (d *discovery) last() {
	d.mu.Lock()
	d.calls.stop()
	d.changed = nil
	if !d.telling {
		d.telling, d.found = d.asking || d.given || d.finding, ""
	}
	d.telling = d.telling && !d.out
	d.asking, d.given, d.finding = false, false, false
	d.mu.Unlock()
	d.session.speakLast(d.speak)
}
