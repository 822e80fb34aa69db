package shared

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"time"
)

// division is how sessions divide the global limit of a credential. The server stores it; a session with news replaces
// it. All times are by the server's clock.
//
// The sum of all parts and of all cooling amounts never exceeds the limit. A part grows only by an amount that is free.
// When a part shrinks, or its user dies, the difference cools down: requests sent with it still count.
type division struct {
	Era     int64             `json:"era"`
	Born    time.Duration     `json:"born"`  // no earlier division was used after that
	Users   map[string]*share `json:"users"` // by session
	Cooling []cooling         `json:"cooling,omitempty"`
	Hold    time.Duration     `json:"hold,omitempty"`   // until when nothing is sent
	Claims  time.Duration     `json:"claims,omitempty"` // after a loss: until when users report the parts that they have
	Apart   int               `json:"apart,omitempty"`  // until then: what nobody has claimed yet
}

// share is what one session has of the limit.
type share struct {
	Limit int           `json:"limit"` // what the session takes for the limit; 0: it only needs holds
	Need  int           `json:"need"`
	Part  int           `json:"part"`
	Till  time.Duration `json:"till,omitempty"` // without a limit: until when it counts without another report
	fair  int           // what it should have, of plan
	grown bool          // by share
}

type cooling struct {
	Part int           `json:"part"`
	Till time.Duration `json:"till"`
}

// errDivision means that a value is not a division.
var errDivision = errors.New("does not hold the division of a global limit")

// decodeDivision reads a value.
func decodeDivision(value string) (*division, error) {
	d := &division{}
	bad := content(value, d) != nil || len(d.Users) > most || len(d.Cooling) > most
	counts := func(n ...int) bool { return slices.Min(n) >= 0 && slices.Max(n) <= math.MaxInt32 }
	for _, u := range d.Users {
		bad = bad || u == nil || !counts(u.Limit, u.Need, u.Part)
	}
	for _, c := range d.Cooling {
		bad = bad || !counts(c.Part)
	}
	if bad || !counts(d.Apart) {
		return nil, errDivision
	}
	if d.Users == nil {
		d.Users = map[string]*share{}
	}
	return d, nil
}

// cool keeps an amount from others until the given time.
func (d *division) cool(part int, till time.Duration) {
	if part > 0 {
		d.Cooling = append(d.Cooling, cooling{part, till})
	}
}

// letClaim keeps all that the users have not until the given time, in which others may claim what they have.
func (d *division) letClaim(limit int, till time.Duration) {
	if d.Claims, d.Apart = till, limit; limit == 0 {
		d.Apart = math.MaxInt32 // not known
	}
	for _, u := range d.Users {
		d.Apart -= u.Part
	}
	d.Apart = max(d.Apart, 0)
}

// claim gives a user the part that it has.
func (d *division) claim(u *share, part int) {
	d.Apart = max(d.Apart-(part-u.Part), 0)
	u.Part = part
}

// lapse frees what has cooled down, and removes users without a limit that have not reported for long.
func (d *division) lapse(now time.Duration) {
	d.Cooling = slices.DeleteFunc(d.Cooling, func(c cooling) bool { return c.Till <= now })
	if d.Claims <= now {
		d.Claims, d.Apart = 0, 0
	}
	maps.DeleteFunc(d.Users, func(_ string, u *share) bool { return u.Limit == 0 && u.Till <= now })
}

// remove removes a user. What it had cools down until the given time.
func (d *division) remove(session string, till time.Duration) {
	if u := d.Users[session]; u != nil {
		d.cool(u.Part, till)
		delete(d.Users, session)
	}
}

// limit returns the limit: the lowest that any user takes for it.
func (d *division) limit() (limit int) {
	for _, u := range d.sharing() {
		if limit == 0 || u.Limit < limit {
			limit = u.Limit
		}
	}
	return limit
}

// sharing returns the users that have a limit.
func (d *division) sharing() (all []*share) {
	for _, session := range slices.Sorted(maps.Keys(d.Users)) {
		if u := d.Users[session]; u.Limit > 0 {
			all = append(all, u)
		}
	}
	return all
}

// short returns how much a user lacks of what it should have.
func (u *share) short() int { return max(u.fair-u.Part, 0) }

// plan is what follows from a division at a time.
type plan struct {
	spare  int // what each user may have beyond its fair share, and twice that remains free for users that need more
	needy  int // what all users lack together
	free   int
	coming int // free now or soon
}

// plan sets equal fair shares, but no more than each user needs. The remainder goes to the users with the largest
// parts, so that their parts need not change. If there are more users than requests in the limit, they take turns.
func (d *division) plan(now time.Duration) (p plan) {
	sharing := d.sharing()
	var asking []*share
	limit := d.limit()
	p.free = limit
	for _, u := range sharing {
		u.fair = 0
		if u.Need > 0 {
			asking = append(asking, u)
		}
		p.free -= u.Part
	}
	left := limit
	if n := len(asking); n > limit {
		first := int(now/sessionTime) * limit % n
		for i, u := range asking {
			if (i-first+n)%n < limit {
				u.fair = 1
			}
		}
		left = 0
	} else {
		slices.SortStableFunc(asking, func(a, b *share) int {
			return cmp.Or(cmp.Compare(a.Need, b.Need), cmp.Compare(a.Part, b.Part))
		})
		for i, u := range asking {
			u.fair = min(u.Need, left/(n-i))
			left -= u.fair
		}
	}
	p.spare = left / (len(sharing) + 2)
	for _, u := range asking {
		p.needy += u.short()
	}
	for _, c := range d.Cooling {
		p.free -= c.Part
		p.coming += c.Part
	}
	if d.Claims > now {
		p.free -= d.Apart
	}
	p.coming += p.free
	return p
}

// grow gives a user what is free of what it lacks, and a quarter of what the others do not need of the rest: many users
// may start at the same time, with few requests each.
func (d *division) grow(u *share, now time.Duration) {
	p := d.plan(now)
	grant := min(u.short(), max(p.free, 0))
	more := min(u.fair+p.spare-u.Part-grant, (p.free-grant-(p.needy-grant))/4)
	u.Part += grant + max(more, 0)
}

// share gives the users what is free of what they lack, first those that have least, and returns the plan after that.
func (d *division) share(now time.Duration) plan {
	p := d.plan(now)
	users := d.sharing()
	slices.SortStableFunc(users, func(a, b *share) int { return cmp.Compare(a.Part, b.Part) })
	for _, u := range users {
		grant := min(u.short(), max(p.free, 0))
		u.Part, u.grown = u.Part+grant, grant > 0
		p.free, p.coming, p.needy = p.free-grant, p.coming-grant, p.needy-grant
	}
	return p
}

// target returns what a user may use. It has to return its surplus if another user has too little, if nothing would be
// free for a new user, or if the surplus is large.
func (d *division) target(u *share, p plan) int {
	due := u.fair + p.spare
	if u.Part > due && (p.needy > p.coming || p.coming < p.spare || u.Part-due >= max(2, d.limit()/20)) {
		return due
	}
	return u.Part
}

// nextFree returns when an amount is free next: when one has cooled down, or the time for claims is over. It returns
// false if that depends on other users.
func (d *division) nextFree(now time.Duration) (at time.Duration, ok bool) {
	if d.Claims > now && d.Apart > 0 {
		at, ok = d.Claims, true
	}
	for _, c := range d.Cooling {
		if !ok || c.Till < at {
			at, ok = c.Till, true
		}
	}
	return at, ok
}
