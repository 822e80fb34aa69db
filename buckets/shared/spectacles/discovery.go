package spectacles

import (
	"sync"
	"time"

	"github.com/ratelight/ratelight/buckets/shared"
)

// discovery gives every process the permission to send a probe at once, because Spectacles shares no bucket hashes.
type discovery struct {
	session *session
	changed func()

	mu     sync.Mutex
	may    bool
	closed bool
}

// Discovery implements shared.Session.
func (s *session) Discovery(_, _ string, changed func()) shared.Discovery {
	return &discovery{session: s, changed: changed}
}

func (d *discovery) Ask(time.Duration) {
	d.mu.Lock()
	d.may = true
	d.mu.Unlock()
	d.session.spawn(func() {
		d.mu.Lock()
		silent := d.closed || d.changed == nil
		d.mu.Unlock()
		if !silent {
			d.changed()
		}
	})
}

func (d *discovery) May(time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.may
}

func (d *discovery) Sent(time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.may = false
}

func (d *discovery) Hash() string { return "" }

func (d *discovery) Found(time.Duration, string) {}

func (d *discovery) Err() error { return nil }

func (d *discovery) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.may, d.closed = false, true
}
