package buckets

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
)

// DeclaredSnapshot is what is known at one moment of a window of a limit that was declared (WithLimit) and for which requests wait. It contains
// no credential, no token and no key.
type DeclaredSnapshot struct {
	// Name is the limit's name, Limit and Period what was declared.
	Name   string
	Limit  int
	Period time.Duration
	// Server is the server of the first request that waits for it. Authentication identifies the credential as in BucketSnapshot, "-" for
	// none, and if all share the window.
	Server, Authentication string
	// Major is the major parameter as in BucketSnapshot, "-" if it does not count. Key is a hash of the group and the key (PerGroup, PerKey),
	// "-" if there is neither.
	Major, Key string
	// InUse is how many requests count now.
	InUse int
	// Waiting is how many requests are in line for it.
	Waiting int
	// WaitAfter is how long it is until the next request may leave as far as this limit goes, 0 if one may now, or that depends on an
	// outcome or on another process.
	WaitAfter time.Duration
}

// MarshalJSON encodes the snapshot with descriptive names, times in seconds.
func (s DeclaredSnapshot) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Name           string  `json:"name"`
		Limit          int     `json:"limit"`
		Period         float64 `json:"period_seconds"`
		Server         string  `json:"server"`
		Authentication string  `json:"authentication"`
		Major          string  `json:"major"`
		Key            string  `json:"key"`
		InUse          int     `json:"in_use"`
		Waiting        int     `json:"waiting"`
		WaitAfter      float64 `json:"wait_seconds"`
	}{
		s.Name, s.Limit, s.Period.Seconds(), s.Server, s.Authentication, s.Major, s.Key, s.InUse, s.Waiting, s.WaitAfter.Seconds(),
	})
}

// There may be millions of windows of declared limits. Those for which requests wait are listed, and how many wait is counted for each limit.

// note is called when who waits for the limit has changed. The lock is held.
func (d *declaredLimit) note() {
	d.manager.declaredWaiting[d.key.rule].Add(int64(d.waiting - d.noted))
	d.noted = d.waiting
	waits := d.queues.Len() > 0
	if waits == d.listed {
		return
	}
	if d.listed = waits; waits {
		d.manager.waitedFor.Store(d, struct{}{})
	} else {
		d.manager.waitedFor.Delete(d)
	}
}

// newDeclaredWaiting returns how many requests wait for each limit.
func newDeclaredWaiting(rules []*limitRule) map[*limitRule]*atomic.Int64 {
	counts := make(map[*limitRule]*atomic.Int64, len(rules))
	for _, rule := range rules {
		counts[rule] = new(atomic.Int64)
	}
	return counts
}

// declaredStats returns how many requests wait for each limit, by its name.
func (m *RESTBucketManager) declaredStats() map[string]int {
	if len(m.declaredWaiting) == 0 {
		return nil
	}
	waiting := make(map[string]int, len(m.declaredWaiting))
	for rule, n := range m.declaredWaiting {
		waiting[rule.name] = int(n.Load())
	}
	return waiting
}

// declaredSnapshots returns those of at most n windows for which requests wait, and how many there are.
func (m *RESTBucketManager) declaredSnapshots(now time.Duration, n int) (all []DeclaredSnapshot, total int) {
	all, total = []DeclaredSnapshot{}, m.waitedFor.Size()
	for d := range m.waitedFor.All() {
		if s, waits := d.snapshot(now); waits {
			all = append(all, s)
		}
		if len(all) == mostSeen {
			break
		}
	}
	slices.SortFunc(all, func(x, y DeclaredSnapshot) int {
		return cmp.Or(cmp.Compare(y.Waiting, x.Waiting), cmp.Compare(y.WaitAfter, x.WaitAfter), cmp.Compare(x.Name, y.Name),
			cmp.Compare(x.Authentication, y.Authentication), cmp.Compare(x.Major, y.Major), cmp.Compare(x.Key, y.Key))
	})
	return all[:min(len(all), max(n, 0))], total
}

// snapshot returns what is known of the limit. It reports false if nobody waits for it.
func (d *declaredLimit) snapshot(now time.Duration) (s DeclaredSnapshot, waits bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	first := d.queues.Head()
	if first == nil {
		return s, false
	}
	rule, a := d.key.rule, first.Value.authentication()
	now = d.now(now)
	s = DeclaredSnapshot{
		Name: rule.name, Limit: rule.limit, Period: rule.period,
		Server: a.server.name, Authentication: a.shown(), Major: d.key.major.String(), Key: "-",
		InUse: max(rule.limit-d.window.Remaining(now), 0), Waiting: d.waiting,
	}
	if rule.across {
		s.Authentication = "-"
	}
	if d.key.rest != 0 {
		s.Key = "#" + strconv.FormatUint(d.key.rest&0xffffff, 16)
	}
	at, _ := d.nextPermit(now)
	s.WaitAfter = max(at-now, 0)
	return s, true
}
