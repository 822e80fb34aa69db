package rest

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/internal/message"
	"github.com/ratelight/ratelight/routes"
)

const (
	// DefaultBaseURL is the base URL of Discord's API. WithBaseURL sets another one.
	DefaultBaseURL = "https://discord.com/api/v10"
	// DefaultMaxResponse is the size in bytes of the largest body of a response that a Client reads, unless
	// WithMaxResponse sets another size.
	DefaultMaxResponse = 32 << 20

	project    = "github.com/ratelight/ratelight"
	projectURL = "https://" + project
)

// projectVersion returns the version of the module with which the program was built.
var projectVersion = sync.OnceValue(func() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return unreleased
	}
	return versionIn(build)
})

// unreleased is the version of a development build, because Discord requires a number.
const unreleased = "0.0.0"

func versionIn(build *debug.BuildInfo) string {
	for _, module := range append(build.Deps, &build.Main) {
		if module.Path == project && strings.HasPrefix(module.Version, "v") {
			version, _, _ := strings.Cut(module.Version[1:], "+") // without build metadata
			return version
		}
	}
	return unreleased
}

var (
	// ErrToken is returned by Do if New was given an invalid token: a prefix without a token, which an unset variable
	// causes, or a token with a space or another character that tokens never contain.
	ErrToken = errors.New("invalid token: expected one as the developer portal shows it, with or without \"Bot \" or " +
		"\"Bearer \" before it, or the empty string for none")
	// ErrBaseURL is returned by Do if WithBaseURL was given an invalid base URL.
	ErrBaseURL = errors.New("base URL is not an http or https URL of an API, such as " + DefaultBaseURL +
		", without user, query and fragment")
	// ErrUserAgent is returned by Do if WithUserAgent was given text that the header cannot contain.
	ErrUserAgent = errors.New("user agent contains a parenthesis, a comma, or a character that a header cannot have")
)

// Option configures a Client.
type Option func(*settings)

// settings has the values that the options of a Client set.
type settings struct {
	transport              []httpclient.Option
	baseURL                string
	agentURL, agentVersion string
	agentSuffix            string
	maxResponse            int64
}

// WithTransport passes options to the client's transport. Before them, the client passes httpclient.WithAPI with its
// base URL.
func WithTransport(options ...httpclient.Option) Option {
	return func(s *settings) { s.transport = append(s.transport, options...) }
}

// WithBaseURL sets the base URL of the API, for example for another version of it, a proxy or a test. The default, also
// for the empty string, is DefaultBaseURL. The base URL must be an http or https URL with a host, without user, query
// and fragment; otherwise every Do returns ErrBaseURL. Its host is limited like those of httpclient.WithHosts, as a
// separate server. If the host is a proxy that forwards to Discord, say so with httpclient.WithAPI(base, "") in
// WithTransport.
func WithBaseURL(base string) Option {
	return func(s *settings) { s.baseURL = base }
}

// WithUserAgent sets the User-Agent header: "DiscordBot (url, version) suffix". Discord requires this form; requests
// without it may be refused before they reach the API. An empty url or version is replaced by that of this project. The
// suffix may be empty. If the header cannot contain the text, every Do returns ErrUserAgent.
func WithUserAgent(url, version, suffix string) Option {
	return func(s *settings) {
		s.agentURL, s.agentVersion, s.agentSuffix = url, version, suffix
	}
}

// WithMaxResponse sets the size in bytes of the largest body of a response that the client reads into memory. A larger
// body is a *ResponseTooLargeError. Zero or less means DefaultMaxResponse.
func WithMaxResponse(bytes int64) Option {
	return func(s *settings) {
		if bytes <= 0 {
			bytes = DefaultMaxResponse
		}
		s.maxResponse = bytes
	}
}

func (s *settings) base() (*url.URL, error) {
	base, err := url.Parse(strings.TrimRight(cmp.Or(s.baseURL, DefaultBaseURL), "/"))
	if err != nil || base.Scheme != "https" && base.Scheme != "http" || base.Hostname() == "" || base.User != nil ||
		base.RawQuery != "" || base.ForceQuery || base.Fragment != "" || routes.IsMediaHost(base.Host) {
		return nil, ErrBaseURL // the URL is left out, because it may contain a password
	}
	return base, nil
}

func (s *settings) userAgent() (string, error) {
	where, version := cmp.Or(s.agentURL, projectURL), cmp.Or(s.agentVersion, projectVersion())
	if strings.ContainsAny(where+version, "(),") || !message.IsHeaderValue(where+version+s.agentSuffix) {
		return "", ErrUserAgent
	}
	agent := fmt.Sprintf("DiscordBot (%s, %s)", where, version)
	return strings.TrimRight(agent+" "+s.agentSuffix, " "), nil
}

// parseToken returns the value of the Authorization header for a token, empty if the token is empty.
func parseToken(token string) (string, error) {
	token = strings.TrimSpace(token)
	if token == "" {
		return "", nil
	}
	scheme := "Bot"
	first, rest, _ := strings.Cut(token, " ")
	for _, known := range []string{"Bot", "Bearer"} {
		if strings.EqualFold(first, known) {
			scheme, token = known, strings.TrimSpace(rest)
		}
	}
	visible := func(r rune) bool { return '!' <= r && r <= '~' }
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return !visible(r) }) {
		return "", ErrToken
	}
	return scheme + " " + token, nil
}
