package shared

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"time"
)

// division says how sessions divide the global limit of a credential. The server stores the division, and a session
// that has to change something replaces it. All times are by the server's clock.
//
// The sum of all parts and of all cooling amounts never exceeds the limit. A part grows only by an amount that is free.
// When a part shrinks, or its user dies, the amount that was taken from the part first cools down. Meanwhile the amount
// is not free, because requests that were sent with it still count.
type division struct {
	Era     int64             `json:"era"`
	Born    time.Duration     `json:"born"`  // no earlier division was used after this time
	Users   map[string]*share `json:"users"` // by session
	Cooling []cooling         `json:"cooling,omitempty"`
	Hold    time.Duration     `json:"hold,omitempty"`   // nothing is sent before this time
	Claims  time.Duration     `json:"claims,omitempty"` // after a loss, users report their parts until this time
	Apart   int               `json:"apart,omitempty"`  // amount that no user has claimed; it is not free until Claims
}

// share is the share of one user, a session, in the limit.
type share struct {
	Limit int           `json:"limit"` // the limit that the session's caller has set; 0: the session only needs holds
	Need  int           `json:"need"`
	Part  int           `json:"part"`
	Till  time.Duration `json:"till,omitempty"` // without a limit: the user is removed then unless it reports again
	fair  int           // fair part of the user; set by the method plan
	grown bool          // whether the method share of division has increased Part
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

// cool records that an amount is not free until the given time.
func (d *division) cool(part int, till time.Duration) {
	if part > 0 {
		d.Cooling = append(d.Cooling, cooling{part, till})
	}
}

// letClaim records that the amount that no user has is not free until the given time. Until then users can claim the
// parts that they had before a loss.
func (d *division) letClaim(limit int, till time.Duration) {
	if d.Claims, d.Apart = till, limit; limit == 0 {
		d.Apart = math.MaxInt32 // the limit is not known
	}
	for _, u := range d.Users {
		d.Apart -= u.Part
	}
	d.Apart = max(d.Apart, 0)
}

// claim records the part that a user already had before the loss.
func (d *division) claim(u *share, part int) {
	d.Apart = max(d.Apart-(part-u.Part), 0)
	u.Part = part
}

// lapse frees the amounts that have cooled down, and removes users without a limit that have not reported again in
// time.
func (d *division) lapse(now time.Duration) {
	d.Cooling = slices.DeleteFunc(d.Cooling, func(c cooling) bool { return c.Till <= now })
	if d.Claims <= now {
		d.Claims, d.Apart = 0, 0
	}
	maps.DeleteFunc(d.Users, func(_ string, u *share) bool { return u.Limit == 0 && u.Till <= now })
}

// remove removes a user. The user's part cools down until the given time.
func (d *division) remove(session string, till time.Duration) {
	if u := d.Users[session]; u != nil {
		d.cool(u.Part, till)
		delete(d.Users, session)
	}
}

// limit returns the lowest limit of all users, 0 if no user has a limit.
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

// short returns the amount by which a user's part is smaller than its fair part.
func (u *share) short() int { return max(u.fair-u.Part, 0) }

// plan is the result of the method plan of a division.
type plan struct {
	spare  int // amount that each user may have beyond its fair part; about twice as much stays free
	needy  int // sum of the amounts that users lack to their fair parts
	free   int
	coming int // amount that is free now or soon
}

// plan sets the fair part of each user: equal parts, but for each user no more than it needs. If the limit cannot be
// divided evenly among users with the same need, the users that had larger parts before get more, so that their parts
// need not change. If the number of users with a need exceeds the limit, these users take turns.
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

// grow gives a user free amounts up to its fair part. If a free amount remains that no user needs, grow adds at most a
// quarter of it, because many users may start at the same time, with few requests each.
func (d *division) grow(u *share, now time.Duration) {
	p := d.plan(now)
	grant := min(u.short(), max(p.free, 0))
	more := min(u.fair+p.spare-u.Part-grant, (p.free-grant-(p.needy-grant))/4)
	u.Part += grant + max(more, 0)
}

// share gives free amounts to all users that have less than their fair parts. Users with smaller parts come first. It
// returns the plan for the result.
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

// target returns the part that a user may use. The result is less than the user's part if the user has to give a
// surplus back: because other users have too little, because too little would be free for a new user, or because the
// surplus is large.
func (d *division) target(u *share, p plan) int {
	due := u.fair + p.spare
	if u.Part > due && (p.needy > p.coming || p.coming < p.spare || u.Part-due >= max(2, d.limit()/20)) {
		return due
	}
	return u.Part
}

// nextFree returns the time at which an amount becomes free, because enough has cooled down or because the time for
// claims is over. That time may have passed. p is the plan at now. nextFree returns false if no such time is known.
//
// An amount that has cooled down need not be free, because after a loss more than the limit may be cooling down.
func (d *division) nextFree(now time.Duration, p plan) (at time.Duration, ok bool) {
	taken := slices.Clone(d.Cooling)
	if d.Claims > now {
		taken = append(taken, cooling{d.Apart, d.Claims})
	}
	slices.SortFunc(taken, func(a, b cooling) int { return cmp.Compare(a.Till, b.Till) })
	for _, c := range taken {
		if p.free += c.Part; p.free > 0 {
			return c.Till, true
		}
	}
	return 0, false
}
