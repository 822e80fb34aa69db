package shared

import "context"

var beatScript = script("beat", "beat.lua")

// beatOnce tells the server that the session is alive.
func (s *session) beatOnce(ctx context.Context) {
	_, _ = s.try(ctx, beatScript, []string{s.store.keys.sessions()}, s.id, "3000")
}
