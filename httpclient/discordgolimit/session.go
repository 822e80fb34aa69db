package discordgolimit

import (
	"net/http"
	"strings"

	"github.com/bwmarrin/discordgo"
)

// Prepare makes a session send its REST requests through a transport, usually an *httpclient.Transport. Several
// sessions (shards) may share a transport. Call Prepare before the session is used. It is not safe for concurrent use.
//
// Prepare replaces session.Client with a client without a timeout, because a timeout would include the time in the
// queue. Use discordgo.WithContext for deadlines. Prepare sets session.MaxRestRetries to 0, because discordgo would
// send messages a second time after a 502. The transport repeats requests where that is safe. Prepare also makes
// discordgo get responses without rate limit headers, because discordgo itself would wait as these headers say.
func Prepare(session *discordgo.Session, transport http.RoundTripper) {
	session.Client = &http.Client{Transport: withoutLimits{transport}}
	session.MaxRestRetries = 0
}

// Call returns a session for one REST call, or for several consecutive ones. The returned session is a copy of the
// given session with its own limiter, so that calls on the copy do not wait for other calls. Call does not block and is
// safe for concurrent use.
//
// The returned session has no gateway connection and no handlers. Use the original session for opening, closing, voice,
// presence and events. Handlers get the original session as their argument.
func Call(session *discordgo.Session) *discordgo.Session {
	return &discordgo.Session{
		Token: session.Token, UserAgent: session.UserAgent, Client: session.Client,
		State: session.State, StateEnabled: session.StateEnabled,
		MaxRestRetries: session.MaxRestRetries, Debug: session.Debug, LogLevel: session.LogLevel,
		Ratelimiter: discordgo.NewRatelimiter(),
	}
}

// withoutLimits is a transport that removes rate limit headers from responses.
type withoutLimits struct{ http.RoundTripper }

func (t withoutLimits) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(request)
	if err != nil {
		return response, err
	}
	for name := range response.Header {
		if strings.HasPrefix(name, "X-Ratelimit-") {
			response.Header.Del(name)
		}
	}
	return response, nil
}
