package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// defaultVersion is added to paths without a version, for which Discord would use its oldest version.
const defaultVersion = "v10"

const (
	headerMaxWait = "X-Ratelight-Max-Wait"
	headerGroup   = "X-Ratelight-Group"
	headerLatest  = "X-Ratelight-Latest"
	headerProxy   = "X-Ratelight-Proxy"
	headerSecret  = "X-Ratelight-Secret"
	headerPrefix  = "X-Ratelight-"
)

// apiPath adds /api and a version to a path if they are missing, and reports whether anything follows the version. The
// part after the version is not changed. Each group of slashes around /api and the version becomes one slash, because
// base URLs may end in a slash.
func apiPath(path string) (string, bool) {
	rest := oneSlash(path)
	rest = oneSlash(below(rest, func(segment string) bool { return segment == "api" }))
	version := "/" + defaultVersion
	if after := below(rest, isVersion); after != rest {
		version, rest = rest[:len(rest)-len(after)], oneSlash(after)
	}
	return "/api" + version + rest, strings.Trim(rest, "/") != ""
}

func oneSlash(path string) string { return "/" + strings.TrimLeft(path, "/") }

// below returns the path without its first segment if matches returns true for that segment. Otherwise it returns the
// whole path.
func below(path string, matches func(segment string) bool) string {
	first, _, _ := strings.Cut(path[min(1, len(path)):], "/")
	if matches(first) {
		return path[1+len(first):]
	}
	return path
}

func isVersion(segment string) bool {
	digits, found := strings.CutPrefix(segment, "v")
	return found && isSnowflake(digits)
}

// isSnowflake reports whether a text has the form of one of Discord's ids.
func isSnowflake(text string) bool {
	return text != "" && len(text) <= 20 && strings.Trim(text, "0123456789") == ""
}

// target returns the URL to which a request is forwarded, or the answer if the request is rejected.
func (h *Handler) target(r *http.Request) (*url.URL, *answer) {
	switch {
	case r.Method == http.MethodConnect:
		return nil, &answer{status: http.StatusMethodNotAllowed, reason: "method",
			message: "this is not an HTTP proxy: set the base URL of the library to this address instead"}
	case r.URL.Host != "" || r.URL.User != nil || r.URL.Opaque != "" ||
		!strings.HasPrefix(r.URL.Path, "/") && r.URL.Path != "":
		return nil, badRequest("the request has a full URL, as for an HTTP proxy, but this is not an HTTP proxy: " +
			"set the base URL of the library to this address instead")
	case h.ofAnotherPage(r):
		return nil, &answer{status: http.StatusBadRequest, reason: "origin",
			message: "a web page in a browser has sent the request: this proxy is for bots only"}
	case upgrades(r.Header):
		return nil, &answer{status: http.StatusNotImplemented, reason: "upgrade",
			message: "the proxy is for REST requests: connect to the gateway directly"}
	case len(r.Header["Authorization"]) > 1: // it would not be clear which of them has to be charged
		return nil, badRequest("the request has more than one Authorization")
	}
	path, ok := apiPath(r.URL.EscapedPath())
	if !ok {
		return nil, &answer{status: http.StatusNotImplemented, reason: "no-path",
			message: "the request has no path of Discord's API: expected one like /api/v10/users/@me"}
	}
	path = h.upstream.EscapedPath() + path
	plain, err := url.PathUnescape(path)
	if err != nil || hasDotSegments(plain) {
		return nil, badRequest("the path is malformed")
	}
	return &url.URL{Scheme: h.upstream.Scheme, Host: h.upstream.Host, Path: plain, RawPath: path,
		RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery}, nil
}

// hasDotSegments reports whether an unescaped path has the segment "." or "..". A server that resolves such segments
// would serve another route.
func hasDotSegments(plain string) bool {
	for segment := range strings.FieldsFuncSeq(plain, func(r rune) bool { return r == '/' || r == '\\' }) {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// upgrades reports whether a request needs another protocol. It returns false for an upgrade to HTTP/2, which Java's
// client asks for, because such an upgrade can be ignored.
func upgrades(header http.Header) bool {
	wanted := header["Upgrade"]
	return len(wanted) > 0 && strings.Contains(strings.ToLower(strings.Join(header["Connection"], ",")), "upgrade") &&
		(len(wanted) > 1 || !strings.EqualFold(wanted[0], "h2c"))
}

var errMaxWait = errors.New("the header " + headerMaxWait + " is malformed: expected a number of seconds, 0 or more")

// maxWaitOf returns the longest accepted wait of a request.
func (h *Handler) maxWaitOf(r *http.Request) (time.Duration, error) {
	text := r.Header.Get(headerMaxWait)
	if text == "" {
		return h.maxWait, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds >= 0) {
		return 0, errMaxWait
	}
	longest := LongestWait
	if h.isLarge(r) { // the client's disconnect is not noticed while the request waits
		longest = h.maxWait
	}
	return time.Duration(min(seconds, longest.Seconds()) * float64(time.Second)), nil
}

// longestGroup bounds the length of a group's name, in bytes. An id has at most 20 digits.
const longestGroup = 100

var errGroup = fmt.Errorf("the header %s is too long: expected up to %d characters, such as the id of a guild",
	headerGroup, longestGroup)

func groupOf(r *http.Request) (string, error) {
	group := r.Header.Get(headerGroup)
	if len(group) > longestGroup {
		return "", errGroup
	}
	return group, nil
}

var errLatest = errors.New("the header " + headerLatest + " is malformed: expected true once, or no such header")

// isLatest reports whether a request supersedes older ones of the same method and path.
func isLatest(r *http.Request) (bool, error) {
	switch values := r.Header.Values(headerLatest); {
	case len(values) == 0 || len(values) == 1 && values[0] == "":
		return false, nil
	case len(values) == 1 && values[0] == "true":
		return true, nil
	}
	return false, errLatest
}

// Headers about the way from the client to the proxy are not forwarded, because Cloudflare refuses requests with some
// of them.
var (
	wayHeaders = map[string]bool{
		"Via": true, "Forwarded": true, "Cdn-Loop": true, "X-Rewrite-Url": true,
		"Client-Ip": true, "X-Client-Ip": true, "X-Real-Ip": true, "True-Client-Ip": true,
		"Fastly-Client-Ip": true, "X-Appengine-User-Ip": true, "X-Cluster-Client-Ip": true,
		"Expect": true, // the proxy itself sends the 100 Continue
	}
	wayPrefixes = []string{"X-Forwarded", "X-Original-", "X-Envoy-", "Cf-", headerPrefix}
)

func ofTheWay(name string) bool {
	if wayHeaders[name] {
		return true
	}
	for _, prefix := range wayPrefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
