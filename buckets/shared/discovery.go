package shared

import (
	"errors"
	"strconv"
	"sync"
	"time"
)

const (
	// discoveryLease is how long the server keeps the permission of a process without another call.
	discoveryLease = sessionTime
	// discoveryTime bounds one attempt to find out a hash. After that another process may try.
	discoveryTime = 10 * time.Second
	// hintTime is how long the server stores the hash of a route for which no process asks.
	hintTime = 24 * time.Hour
)

var discoverScript = script("discover", "discover.lua")

// discovery finds out the bucket hash of one route. One process at a time has the permission for it.
//
//	idle     the process does not need the hash
//	asking   it needs the permission or the hash, and asks until it has one of them
//	given    it has the permission, and has not used it yet
//	finding  it has used the permission, until it reports the result or ten seconds have passed
//	telling  the end of the permission has to be reported to the server
type discovery struct {
	session *session
	name    string // of the route, the same in all processes
	buckets string // prefix of the names of its buckets, before the hash
	keys    []string
	who     string // name of this discovery at the server

	mu      sync.Mutex
	changed func() // nil: no caller uses it
	asking  bool
	given   bool
	finding bool
	ends    time.Duration // end of given and finding
	telling bool
	found   string // hash to report, empty if none was found
	hash    string
	out     bool // the server is away
	err     error
	calls   repeater
}

// Discovery returns the discovery of a route's bucket hash.
func (s *session) Discovery(credential, route string, changed func()) Discovery {
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

// Ask asks for the permission to find out the hash.
func (d *discovery) Ask(time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.changed == nil || d.given || d.finding {
		return
	}
	d.asking = true
	d.calls.call()
}

// May reports whether the permission was given, and uses it up.
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

// Hash returns the hash that another process has found, empty if it is not known.
func (d *discovery) Hash() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hash
}

// Found ends the permission. hash is empty if none was found.
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

// Err returns why the permission is not given, nil if requests may wait.
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

// urge asks again at once, because there may be an answer.
func (d *discovery) urge() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asking {
		d.calls.call()
	}
}

// watch records the start and the end of an outage.
func (d *discovery) watch() {
	d.mu.Lock()
	d.out, _ = d.session.away() // read again, as watch may run late
	changed := d.changed
	if d.asking || d.telling {
		d.calls.call()
	}
	d.mu.Unlock()
	if changed != nil {
		changed()
	}
}

// once makes one call, and returns the wait until the next one.
func (d *discovery) once() time.Duration {
	d.mu.Lock()
	// Other processes must find the requests sent so far and the holds in the buckets that they learn of.
	if d.telling && d.found != "" {
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

// wants returns the verb of the next call, "" for no call. d.mu must be held.
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

// heard records a reply, and returns the wait until the next call. d.mu must be held.
func (d *discovery) heard(wants string, values []int64) (wait time.Duration) {
	d.err = nil
	if wants == "found" {
		if d.changed == nil && !d.telling {
			d.forget()
		}
		return 0 // there may be more to report
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

// failed records that a call failed, and returns the wait until the next one. d.mu must be held.
func (d *discovery) failed(wants string, err error) (wait time.Duration) {
	if wants == "found" && !errors.Is(err, ErrClosed) {
		d.telling = d.telling || d.found != "" || d.changed != nil
		if !d.telling {
			d.forget() // the permission expires by itself
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

// last reports the end of the permission when the session ends.
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
