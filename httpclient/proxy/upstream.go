package proxy

import (
	"sync"
	"time"
)

// UpstreamState describes the outcome of the latest requests to the upstream.
type UpstreamState struct {
	// Answered is the time at which the latest response arrived. Failed is the time at which a request last failed
	// without a response. The zero time means never.
	Answered, Failed time.Time
	// Failure describes the latest failure, without secrets.
	Failure string
	// Hold is the remaining time in which no request may be sent, because the network in front of the upstream
	// (Cloudflare) has refused a request. 0 means no hold.
	Hold time.Duration
}

// OK reports whether there is no hold and the latest request, if there was one, got a response.
func (s UpstreamState) OK() bool { return s.Hold <= 0 && !s.Failed.After(s.Answered) }

// Upstream returns the current state of the upstream.
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
