package discordsim

import "time"

// stray is an own request that was counted in an unexpected bucket: answers to the same operation had named another
// bucket, or chance decided. The client knows of the stray when it has read the answer to the stray, or a later answer
// of the bucket.
type stray struct {
	discovery *discovery // the discovery of the stray's operation
	chance    bool
	changed   bool // the counters of the rule have changed
	made      time.Time
	read      time.Time // when the client read the answer to the stray; zero: not yet
	told      time.Time // when the client read a later answer of the bucket, which counts the stray; zero: not yet
}

// maxStrays is how many of its latest strays a bucket remembers.
const maxStrays = 64

// stray returns a stray for a request that was just counted, or nil if the request is not a stray. A request is no
// stray if the client knew which bucket would count it. It is no stray either if the client had to reckon with every
// bucket: until an answer to an operation names a bucket, requests of that operation may belong to any bucket.
func (w *World) stray(x *exchange) *stray {
	d, sent := x.discovery, x.call.Request.SentAt
	if d.knows(x, sent) || !x.unpredictable && (d.heard.IsZero() || d.heard.After(sent)) {
		return nil
	}
	return &stray{discovery: d, chance: x.unpredictable, changed: x.settled.After(w.start), made: x.call.Now}
}

// unknown reports whether the client, when it sent another request, could not know of the stray. If both requests
// belong to the same operation, the client expects them in the same bucket, except if chance decides, or if the client
// knows that the operation's counters have changed.
func (s *stray) unknown(q question) bool {
	return s != nil && (s.chance || s.discovery != q.discovery || s.changed && q.knows) &&
		(s.read.IsZero() || s.read.After(q.sent)) && (s.told.IsZero() || s.told.After(q.sent))
}

// addStray records that the latest counted request is the stray s. If s is nil, it does nothing.
func (k *knowledge) addStray(s *stray) {
	if s == nil {
		return
	}
	k.sends[len(k.sends)-1].stray = s
	if k.strays = append(k.strays, s); len(k.strays) > maxStrays {
		k.strays = k.strays[1:]
	}
}

// unknown returns how many strays may still occupy a place at the time now without the client's knowledge.
func (k *knowledge) unknown(q question, now time.Time, period time.Duration) (n int) {
	for _, s := range k.strays {
		if s.unknown(q) && now.Sub(s.made) < period {
			n++
		}
	}
	return n
}
