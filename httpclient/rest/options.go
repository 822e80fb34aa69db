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
	// DefaultBaseURL is the base URL of Discord's API. WithBaseURL sets another base URL.
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

// unreleased is the version that is sent by a development build, because Discord requires a number.
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
	// ErrToken is returned by Do if the token given to New is invalid. Such a token is "Bot " or "Bearer " with nothing
	// after it (for example because an environment variable is not set), or contains a space or another character that
	// tokens never contain.
	ErrToken = errors.New("invalid token: expected one as the developer portal shows it, with or without \"Bot \" or " +
		"\"Bearer \" before it, or the empty string for none")
	// ErrBaseURL is returned by Do if the base URL given to WithBaseURL is invalid.
	ErrBaseURL = errors.New("base URL is not an http or https URL of an API, such as " + DefaultBaseURL +
		", without user, query and fragment")
	// ErrUserAgent is returned by Do if the header cannot contain the text given to WithUserAgent.
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

// WithTransport passes options to the client's transport. Before these options, the client passes httpclient.WithAPI
// with its base URL.
func WithTransport(options ...httpclient.Option) Option {
	return func(s *settings) { s.transport = append(s.transport, options...) }
}

// WithBaseURL sets the base URL of the API, for example for another version of the API, for a proxy or for a test.
// Without this option, or with the empty string, it is DefaultBaseURL. The base URL must be an http or https URL with a
// host, and without user, query and fragment. Otherwise every Do returns ErrBaseURL. The host of the base URL is
// limited, and counts as a separate server, see httpclient.WithAPI. If the host is a proxy that forwards to Discord,
// pass httpclient.WithAPI(base, "") to WithTransport.
func WithBaseURL(base string) Option {
	return func(s *settings) { s.baseURL = base }
}

// WithUserAgent sets the User-Agent header: "DiscordBot (url, version) suffix". Discord requires this form, and may
// refuse other requests before they reach the API. If url or version is empty, the URL or the version of this project
// is used instead. The suffix may be empty. If the header cannot contain the text, every Do returns ErrUserAgent.
func WithUserAgent(url, version, suffix string) Option {
	return func(s *settings) {
		s.agentURL, s.agentVersion, s.agentSuffix = url, version, suffix
	}
}

// WithMaxResponse sets the size in bytes of the largest body of a response that the client reads into memory. If the
// body is larger, Do returns a *ResponseTooLargeError. Zero or less means DefaultMaxResponse.
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
		return nil, ErrBaseURL // without the URL, because that may contain a password
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
