package proxy

import (
	"sync"
	"time"
)

// UpstreamState is how the latest requests to the upstream fared.
type UpstreamState struct {
	// Answered and Failed are when the latest response came, and when the latest request got none. They are zero if there was none.
	Answered, Failed time.Time
	// Failure says what happened then, without secrets.
	Failure string
	// Hold is how long the network in front of the upstream (Cloudflare) has asked to send nothing.
	Hold time.Duration
}

// OK reports that the latest request got a response, if there was one, and that requests may be sent.
func (s UpstreamState) OK() bool { return s.Hold <= 0 && !s.Failed.After(s.Answered) }

// Upstream returns the current state.
func (h *Handler) Upstream() UpstreamState {
	s := h.upstreamState.get()
	if m := h.transport.Manager(); m != nil {
		s.Hold = m.EdgeWait("")
	}
	return s
}

type upstreamState struct {
	mu    sync.Mutex
	state UpstreamState
}

func (u *upstreamState) get() UpstreamState {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.state
}

func (u *upstreamState) answered() {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.state.Answered = now
}

func (u *upstreamState) failed(err error) {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.state.Failed, u.state.Failure = now, err.Error()
}
