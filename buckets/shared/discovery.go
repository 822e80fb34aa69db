package shared

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// discoveryTime bounds one attempt to find out a hash. After that another process may try.
	discoveryTime = 10 * time.Second
	// hintTime is how long the server stores the hash of a route for which no process asks.
	hintTime = 24 * time.Hour
	// hintSlack is by how much the time may fall short when a process has asked for the hash.
	hintSlack = time.Hour
	// askedTime is how long the server stores who finds out a hash, and who waits for it.
	askedTime = time.Minute
)

// found is what the server stores of a route: its hash, or the discovery that finds it out and the sessions that wait
// for the result.
type found struct {
	Hash    string   `json:"hash,omitempty"`
	Finder  string   `json:"finder,omitempty"` // "session:number"
	Waiting []string `json:"waiting,omitempty"`
}

var errFound = errors.New("does not hold the bucket hash of a route")

func decodeFound(value string) (f found, err error) {
	if value == "" {
		return f, nil
	}
	_, text, _ := strings.Cut(value, " ")
	_, ok := parseVersion(versionOf(value))
	if json.Unmarshal([]byte(text), &f) != nil || !ok {
		return f, errFound
	}
	return f, nil
}

// finder returns the session of the discovery that finds out the hash, "" for none.
func (f *found) finder() string {
	session, _, _ := strings.Cut(f.Finder, ":")
	return session
}

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
	key     string
	who     string // name of this discovery at the server

	mu      sync.Mutex
	changed func() // nil: no caller uses it
	asking  bool
	given   bool
	finding bool
	ends    time.Duration // end of given and finding
	telling bool
	renews  bool   // found was read, and is only to be stored for longer
	found   string // hash to report, empty if none was found
	hash    string
	kept    string // the latest value that is known
	dead    string // session that the server reported dead
	out     bool   // the server is away
	err     error
	calls   repeater
}

// Discovery returns the discovery of a route's bucket hash.
func (s *session) Discovery(credential, route string, changed func()) Discovery {
	p := &s.parts
	name := credential + ":" + route
	d := &discovery{
		session: s, name: name, buckets: credential + "/", key: s.store.keys.name("d", name),
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

// urge asks again at once, because there is another value.
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

// search is a call of a discovery.
type search struct {
	wants  string // "ask", "keep" or "found"
	renews bool
	found  string
	finder string // session about which it asks
	steps  []Step
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
	q := search{wants: d.wants()}
	if q.wants == "" {
		d.mu.Unlock()
		return never
	}
	asked := d.asking
	if q.wants == "found" {
		q.found, q.renews = d.found, d.renews
		d.telling, d.renews = false, false
	}
	d.compose(&q)
	d.mu.Unlock()
	r, err := d.session.exchange("discover", d.session.eraNumber(), q.steps...)
	d.mu.Lock()
	wait := d.heard(&q, &r, err)
	changed := d.changed
	d.mu.Unlock()
	if changed != nil && asked {
		changed()
	}
	return wait
}

// compose adds the steps of a call. d.mu must be held.
func (d *discovery) compose(q *search) {
	mine := d.session.id
	f, _ := decodeFound(d.kept) // was decoded before
	next, life := f, askedTime
	var tell []string
	switch {
	case q.wants == "found" && q.found != "":
		next, life, tell = found{Hash: q.found}, hintTime, f.Waiting
	case q.wants == "found" && f.Finder == d.who:
		next, life, tell = found{}, time.Millisecond, f.Waiting // nothing has to be known of it
	case q.wants != "ask" || f.Hash != "":
	case f.Finder == "" || f.Finder == d.who || f.finder() == d.dead:
		next.Finder = d.who
		next.Waiting = slices.DeleteFunc(slices.Clone(f.Waiting), func(s string) bool { return s == mine })
	case !slices.Contains(f.Waiting, mine):
		next.Waiting = append(slices.Clone(f.Waiting), mine)
	}
	d.dead = ""
	step := Step{Key: d.key}
	if !reflect.DeepEqual(next, f) || q.found != "" {
		v, _ := parseVersion(versionOf(d.kept))
		text, _ := json.Marshal(next) // cannot fail
		step.Version, step.Value, step.Life = versionOf(d.kept), v.next().String()+" "+string(text), life
		tell = slices.DeleteFunc(slices.Clone(tell), func(s string) bool { return s == mine })
		step.Channels, step.Message = d.session.channels(tell), "found "+withName(d.name)
	}
	q.steps = []Step{step}
	if other := f.finder(); q.wants == "ask" && other != "" && f.Finder != d.who {
		q.finder = other
		q.steps = append(q.steps, d.session.lifeSteps([]string{other})...)
	}
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

// heard records the result of a call, and returns the wait until the next one. d.mu must be held.
func (d *discovery) heard(q *search, r *reply, err error) (wait time.Duration) {
	if err != nil {
		return d.failed(q, err)
	}
	d.err = nil
	again := q.wants == "found" && !q.renews // repeat what the call had to report
	if !r.anew {
		main := r.values[0]
		value := main.Value
		if main.Replaced {
			value = q.steps[0].Value
		}
		f, err := decodeFound(value)
		if err != nil {
			return d.failed(q, d.session.wrongKey(d.key, err.Error()))
		}
		before := d.kept
		d.kept = value
		if f.Hash != "" {
			d.hash = f.Hash
		}
		if f.Hash != "" && q.wants == "ask" && main.Life < hintTime-hintSlack {
			d.telling, d.renews, d.found = true, true, f.Hash
			d.calls.call()
		}
		if len(r.values) > 1 && d.session.lives(q.finder, r.values[1]) == 0 && f.finder() == q.finder {
			d.dead = q.finder
			return 0
		}
		again = q.wants == "found" && !q.renews && !main.Replaced && value != before
		if q.wants == "ask" && d.asking {
			return d.answered(&f, main.Replaced || value == before)
		}
	}
	if q.wants == "found" {
		if again && !d.telling {
			d.telling, d.found = true, q.found
		}
		if d.changed == nil && !d.telling {
			d.forget()
		}
		return 0 // there may be more to report
	}
	if r.anew {
		return 0
	}
	return beatPeriod
}

// answered records the server's value after a question, and returns the wait until the next call. settled is false if
// another session was faster. d.mu must be held.
func (d *discovery) answered(f *found, settled bool) time.Duration {
	switch {
	case f.Hash != "":
		d.asking = false
		return never
	case f.Finder == d.who:
		d.asking, d.given, d.ends = false, true, d.session.now()+discoveryTime
		return beatPeriod
	case !settled:
		return 0
	}
	return beatPeriod
}

// failed records that a call failed, and returns the wait until the next one. d.mu must be held.
func (d *discovery) failed(q *search, err error) (wait time.Duration) {
	if q.wants == "found" && !errors.Is(err, ErrClosed) && !d.telling {
		d.found = q.found
		d.telling = d.found != "" || d.changed != nil
		if !d.telling {
			d.forget() // the permission ends with the session's life, or by the next value
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
	q := search{wants: "found"}
	if d.telling {
		q.found = d.found
	}
	d.asking, d.given, d.finding, d.telling = false, false, false, false
	d.mu.Unlock()
	for range mostLastCalls {
		if !tell {
			return
		}
		d.mu.Lock()
		d.compose(&q)
		d.mu.Unlock()
		r, err := d.session.lastCall("discover", d.session.eraNumber(), q.steps...)
		d.mu.Lock()
		d.heard(&q, &r, err)
		tell, d.telling = err == nil && d.telling, false
		d.mu.Unlock()
	}
}
