package shared

import "sync"

// mostHashes bounds how many hashes a session tells again.
const mostHashes = 1000

// hashes are the bucket hashes of routes, as the session has found them out or read them. It tells them again after a
// loss. Otherwise a process that starts later would have to find them out, with requests into buckets that may be used
// up.
type hashes struct {
	mu     sync.Mutex
	byName map[string]string // by name of the discovery
}

func (h *hashes) learn(name, hash string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byName == nil {
		h.byName = map[string]string{}
	}
	if _, known := h.byName[name]; known || len(h.byName) < mostHashes {
		h.byName[name] = hash
	}
}

// retellHashes gives the server the hashes that it has lost. It follows the news about buckets, because other processes
// must find there what was sent.
func (s *session) retellHashes() {
	h := &s.parts.hashes
	h.mu.Lock()
	var steps []Step
	for name, hash := range h.byName {
		c := cell{key: s.store.keys.name("d", name)}
		steps = append(steps, c.replace(found{Hash: hash}, hintTime))
	}
	h.mu.Unlock()
	if len(steps) > 0 {
		s.settle("")
		_, _ = s.exchange("discover", s.eraNumber(), steps...) // if it fails, they are found out anew
	}
}
