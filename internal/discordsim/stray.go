package discordsim

import "time"

// stray is an own request that was counted in a bucket where the client had reason not to expect it: other answers to
// its operation had named another bucket, or chance decided. The client knows of it after reading its answer, or a
// later answer of the bucket.
type stray struct {
	discovery *discovery // of its operation
	chance    bool
	changed   bool // the counters of the rule have changed
	made      time.Time
	read      time.Time // zero: not yet
	told      time.Time // when the client read another answer that counts it; zero: not yet
}

// maxStrays is how many strays a bucket remembers.
const maxStrays = 64

// stray returns a stray for a request that was counted, or nil if the request is none. It is none if the client knew
// where it would be counted, or had no reason to expect any bucket: until an answer to an operation names a bucket,
// requests of that operation may belong to any bucket.
func (w *World) stray(x *exchange) *stray {
	d, sent := x.discovery, x.call.Request.SentAt
	if d.knows(x, sent) || !x.unpredictable && (d.heard.IsZero() || d.heard.After(sent)) {
		return nil
	}
	return &stray{discovery: d, chance: x.unpredictable, changed: x.settled.After(w.start), made: x.call.Now}
}

// unknown reports whether the client could not know of the stray when it sent another request. The client expects the
// requests of one operation in the same bucket, unless chance decides, or it knows that the operation's counters have
// changed.
func (s *stray) unknown(q question) bool {
	return s != nil && (s.chance || s.discovery != q.discovery || s.changed && q.knows) &&
		(s.read.IsZero() || s.read.After(q.sent)) && (s.told.IsZero() || s.told.After(q.sent))
}

// addStray records that the latest counted request is a stray.
func (k *knowledge) addStray(s *stray) {
	if s == nil {
		return
	}
	k.sends[len(k.sends)-1].stray = s
	if k.strays = append(k.strays, s); len(k.strays) > maxStrays {
		k.strays = k.strays[1:]
	}
}

// unknown returns how many strays may still occupy a place although the client could not know of them.
func (k *knowledge) unknown(q question, now time.Time, period time.Duration) (n int) {
	for _, s := range k.strays {
		if s.unknown(q) && now.Sub(s.made) < period {
			n++
		}
	}
	return n
}
