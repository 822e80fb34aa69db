package shared

import (
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/ratelight/ratelight/buckets"
)

const (
	// discoveryLease is for how long the others believe that somebody finds out, if it says nothing.
	discoveryLease = sessionTime
	// discoveryTime is how long finding out may take. Then others may try.
	discoveryTime = 10 * time.Second
	// hintTime is how long the bucket hash of a route is remembered that nobody asks for.
	hintTime = 24 * time.Hour
)

var discoverScript = script("discover", "discover.lua")

// discovery is one route whose bucket hash is to be found out, by one process.
//
//	idle    it does not want to find out
//	asking  it wants to, and asks again until it may, or the hash is known
//	given   it may, and does not know yet
//	finding it does, until it says what it found, or ten seconds have passed
//	telling the server is to know that it is over
type discovery struct {
	session *session
	name    string // of the route in all processes
	buckets string // what the names of its buckets begin with, before the hash
	keys    []string
	who     string // it is in the eyes of the server

	mu      sync.Mutex
	changed func() // nil: nobody uses it
	asking  bool
	given   bool
	finding bool
	ends    time.Duration // of given and finding
	telling bool
	found   string // to tell
	hash    string
	out     bool // the server is away
	err     error
	calls   repeater
}

// Discovery returns what is needed to find out the bucket hash of a route.
func (s *session) Discovery(credential, route string, changed func()) buckets.SharedDiscovery {
	p := &s.parts
	name := credential + ":" + route
	d := &discovery{
		session: s, name: name, buckets: credential + "/", keys: []string{s.store.keys.name("d", name)},
		who: s.id + ":" + strconv.FormatInt(p.number.Add(1), 10), changed: changed,
	}
	d.calls = repeater{session: s, lock: &d.mu, once: d.once}
	p.mu.Lock()
	defer p.mu.Unlock()
	d.out = p.out
	p.discoveries[d] = struct{}{}
	return d
}

// Ask asks for the permission to find out.
func (d *discovery) Ask(time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.changed == nil || d.given || d.finding {
		return
	}
	d.asking = true
	d.calls.call()
}

// May reports that the permission was given, and uses it up.
func (d *discovery) May(now time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.given:
		d.given, d.finding = false, true
		return true
	case d.asking && d.out && d.session.store.options.outage >= OutageShare:
		d.asking, d.finding, d.ends = false, true, now+discoveryTime
		return true
	}
	return false
}

// Hash returns what another process has found.
func (d *discovery) Hash() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hash
}

// Found ends the permission.
func (d *discovery) Found(_ time.Duration, hash string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.given || d.finding {
		d.tell(hash)
	}
}

// tell lets the server know that it is over. d.mu is held.
func (d *discovery) tell(hash string) {
	d.asking, d.given, d.finding = false, false, false
	d.telling, d.found = true, hash
	d.calls.call()
}

// Err returns why nothing is granted.
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

// forget drops what nobody uses any more. d.mu is held.
func (d *discovery) forget() {
	d.calls.stop()
	p := &d.session.parts
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.discoveries, d)
}

// urge asks again, because there may be an answer.
func (d *discovery) urge() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asking {
		d.calls.call()
	}
}

// watch takes in that an outage began or ended.
func (d *discovery) watch() {
	d.mu.Lock()
	d.out, _ = d.session.away() // by now
	changed := d.changed
	if d.asking || d.telling {
		d.calls.call()
	}
	d.mu.Unlock()
	if changed != nil {
		changed()
	}
}

// once calls the server, and returns when to do so again.
func (d *discovery) once() time.Duration {
	d.mu.Lock()
	if d.telling && d.found != "" { // whoever knows the hash must find in its buckets what has been sent, and what holds them
		begin := d.buckets + d.found + "/"
		d.mu.Unlock()
		d.session.settle(begin)
		d.mu.Lock()
	}
	wants, found := d.wants(), d.found
	if wants == "" {
		d.mu.Unlock()
		return never
	}
	asked := d.asking
	if wants == "found" {
		d.telling = false
	} else {
		found = ""
	}
	d.mu.Unlock()
	reply, err := d.session.call(discoverScript, d.keys, d.arguments(wants, found)...)
	d.mu.Lock()
	var wait time.Duration
	if err == nil && len(reply.values) < 2 {
		err = errors.New("shared: the reply of script discover is too short: do all processes use the same version?")
	}
	if err != nil {
		wait = d.failed(wants, err)
	} else {
		wait = d.heard(wants, reply.values)
	}
	changed := d.changed
	d.mu.Unlock()
	if changed != nil && asked {
		changed()
	}
	return wait
}

// wants returns what is to be said to the server, nothing if that is empty. d.mu is held.
func (d *discovery) wants() string {
	switch {
	case d.telling:
		return "found"
	case d.asking:
		return "ask"
	case (d.given || d.finding) && d.session.now() < d.ends:
		return "keep"
	}
	return ""
}

func (d *discovery) arguments(wants, found string) []string {
	keys := &d.session.store.keys
	return []string{
		d.session.id, d.who, wants, number(discoveryLease), number(hintTime), keys.channel(""), "found " + d.name, found,
	}
}

// heard takes in a reply. d.mu is held.
func (d *discovery) heard(wants string, values []int64) (wait time.Duration) {
	d.err = nil
	if wants == "found" {
		if d.changed == nil && !d.telling {
			d.forget()
		}
		return 0 // there may be more to say
	}
	hash := make([]byte, 0, len(values))
	for _, b := range values[2:] {
		hash = append(hash, byte(b))
	}
	if len(hash) > 0 {
		d.hash = string(hash)
	}
	switch {
	case wants != "ask" || !d.asking:
		return beatPeriod
	case values[0] == 1:
		d.asking, d.given, d.ends = false, true, d.session.now()+discoveryTime
		return beatPeriod
	case d.hash != "":
		d.asking = false
		return never
	}
	return min(max(millis(values[1]), 10*time.Millisecond), beatPeriod)
}

// failed takes in that a call failed. d.mu is held.
func (d *discovery) failed(wants string, err error) (wait time.Duration) {
	if wants == "found" && !errors.Is(err, ErrClosed) {
		d.telling = d.telling || d.found != "" || d.changed != nil
		if !d.telling {
			d.forget() // the permission ends by itself
		}
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

// last says what is to be said when the session ends.
func (d *discovery) last() {
	d.mu.Lock()
	d.calls.stop()
	d.changed = nil
	tell := !d.out && (d.telling || d.given || d.finding || d.asking)
	found := ""
	if d.telling {
		found = d.found
	}
	d.asking, d.given, d.finding, d.telling = false, false, false, false
	d.mu.Unlock()
	if tell {
		d.session.lastCall(discoverScript, d.keys, d.arguments("found", found)...)
	}
}
