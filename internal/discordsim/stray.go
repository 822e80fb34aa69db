package discordsim

import "time"

// stray is an own request that was counted where the client had reason to believe that it would not be: other answers to its
// operation had named another bucket, or chance decided. The client knows of it when it has read the answer, or another one that
// has counted the request.
type stray struct {
	discovery *discovery // of its operation
	chance    bool
	changed   bool // what the rule counts in has changed once
	made      time.Time
	read      time.Time // zero: not yet
	told      time.Time // by another answer; zero: not yet
}

// maxStrays is how many of them a bucket remembers.
const maxStrays = 64

// stray returns what a request that has been counted is, nil if the client knew where it would be, or knew that it did not: as long
// as no answer to an operation has named a bucket, its requests may belong to any.
func (w *World) stray(x *exchange) *stray {
	d, sent := x.discovery, x.call.Request.SentAt
	if d.knows(x, sent) || !x.unpredictable && (d.heard.IsZero() || d.heard.After(sent)) {
		return nil
	}
	return &stray{discovery: d, chance: x.unpredictable, changed: x.settled.After(w.start), made: x.call.Now}
}

// unknown reports whether the client could not know of it when it sent another request. Requests of one operation meet each other in
// whatever bucket that is, unless chance decides, or what the operation is counted in has changed and the client knows that by now.
func (s *stray) unknown(q question) bool {
	return s != nil && (s.chance || s.discovery != q.discovery || s.changed && q.knows) &&
		(s.read.IsZero() || s.read.After(q.sent)) && (s.told.IsZero() || s.told.After(q.sent))
}

// addStray notes that the request that was counted last is one.
func (k *knowledge) addStray(s *stray) {
	if s == nil {
		return
	}
	k.sends[len(k.sends)-1].stray = s
	if k.strays = append(k.strays, s); len(k.strays) > maxStrays {
		k.strays = k.strays[1:]
	}
}

// unknown is how many strays the client could not know of that may still occupy a place.
func (k *knowledge) unknown(q question, now time.Time, period time.Duration) (n int) {
	for _, s := range k.strays {
		if s.unknown(q) && now.Sub(s.made) < period {
			n++
		}
	}
	return n
}
