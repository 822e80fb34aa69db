package httpclient

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/ratelight/ratelight/routes"
)

const (
	// DefaultBaseURL is where Discord's API is, unless WithBaseURL says otherwise.
	DefaultBaseURL = "https://discord.com/api/v10"
	// DefaultMaxResponse is the largest body of a response, in bytes, that a Client reads unless WithMaxResponse says
	// otherwise.
	DefaultMaxResponse = 32 << 20

	projectURL     = "https://github.com/ratelight/ratelight"
	projectVersion = "0.1.0"
)

var (
	// ErrBaseURL is returned by Do if WithBaseURL was given what requests cannot be sent to.
	ErrBaseURL = errors.New("base URL is not an http or https URL of an API, such as " + DefaultBaseURL +
		", without user, query and fragment")
	// ErrUserAgent is returned by Do if WithUserAgent was given what cannot stand in the header.
	ErrUserAgent = errors.New("user agent contains a parenthesis, a comma, or a character that a header cannot have")
)

// clientSettings are what the options of a Client say.
type clientSettings struct {
	baseURL                string
	agentURL, agentVersion string
	agentSuffix            string
	maxResponse            int64
}

// WithBaseURL sets where the API is, for a Client: another version, a proxy, a test. The default, also for the empty string,
// is DefaultBaseURL. Anything but an http or https URL with a host, and without user, query and fragment, makes every Do
// return ErrBaseURL. Its host is limited like those of WithHosts, see also WithServer. A Transport takes no notice.
func WithBaseURL(base string) Option {
	return func(s *settings) { s.client.baseURL = base }
}

// WithUserAgent sets what a Client sends as its User-Agent: "DiscordBot (url, version) suffix". That form is Discord's demand;
// requests without it may be refused before they reach the API. An empty url and version together stand for this project's,
// an empty one of the two for that one of this project's. The suffix may be empty. What cannot stand in the header makes
// every Do return ErrUserAgent. A Transport takes no notice.
func WithUserAgent(url, version, suffix string) Option {
	return func(s *settings) {
		s.client.agentURL, s.client.agentVersion, s.client.agentSuffix = url, version, suffix
	}
}

// WithMaxResponse sets the largest body of a response, in bytes, that a Client reads into memory. A larger one is a
// *ResponseTooLargeError. Zero or less means DefaultMaxResponse. A Transport takes no notice.
func WithMaxResponse(bytes int64) Option {
	return func(s *settings) { s.client.maxResponse = bytes }
}

func (s *clientSettings) base() (*url.URL, error) {
	base, err := url.Parse(strings.TrimRight(cmp.Or(s.baseURL, DefaultBaseURL), "/"))
	if err != nil || base.Scheme != "https" && base.Scheme != "http" || base.Hostname() == "" || base.User != nil ||
		base.RawQuery != "" || base.ForceQuery || base.Fragment != "" || routes.IsMediaHost(base.Host) {
		return nil, ErrBaseURL // which does not repeat it: there may be a password in it
	}
	return base, nil
}

func (s *clientSettings) userAgent() (string, error) {
	where, version := cmp.Or(s.agentURL, projectURL), cmp.Or(s.agentVersion, projectVersion)
	if strings.ContainsAny(where+version, "(),") || !isHeaderValue(where+version+s.agentSuffix) {
		return "", ErrUserAgent
	}
	agent := fmt.Sprintf("DiscordBot (%s, %s)", where, version)
	return strings.TrimRight(agent+" "+s.agentSuffix, " "), nil
}
