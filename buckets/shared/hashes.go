package shared

import "sync"

// mostHashes bounds how many hashes a session remembers.
const mostHashes = 1000

// hashes are the bucket hashes of routes that the session has discovered or read. After a loss the session reports them
// to the server again. Otherwise a process that starts later would have to discover them, with requests into buckets
// that may be used up.
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

// retellHashes reports the hashes to a server that has lost them. The news about buckets is reported first: a process
// that reads a hash must find in the bucket which requests were sent.
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
		_, _ = s.exchange("discover", s.eraNumber(), steps...) // if the call fails, the hashes are discovered again
	}
}
