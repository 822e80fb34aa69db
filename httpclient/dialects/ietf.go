package dialects

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// IETF is the dialect of draft-ietf-httpapi-ratelimit-headers-11, which has the fields RateLimit and RateLimit-Policy.
// It also reads the fields of older versions of the draft: RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset, or
// a RateLimit with limit, remaining and reset. A 429 is a refusal. The wait after a 429 is its Retry-After. If the 429
// has no Retry-After, the wait lasts until the limit resets.
//
// The names and partition keys of all policies together name the bucket. A policy is ignored if it does not count
// requests (as its parameter "qu" says), or if it has no quota or no time. Servers may round times up or down.
// Therefore the reset is expected up to a second later than a response says, unless the response names the whole window
// of the policy.
//
// Several policies are treated as one limit: the limit of the policy with the fewest requests left. When this limit
// resets, as many requests are sent as all policies then allow. That is simple, but not exact: if a longer window is
// nearly used up, requests are sent more slowly than necessary. In simulations with several random policies, the
// average speed was three quarters of the possible speed, and the lowest was a third. One request in 200 was refused
// and sent again. With a single policy, the speed was 95 % of the possible speed, and no request was refused.
func IETF(status int, header http.Header, _ []byte) ratelimits.Response {
	r := ratelimits.ParseResponse(status, http.Header{"Retry-After": header["Retry-After"], "Date": header["Date"]}, nil)
	if bucket, limits := limitsOf(header); len(limits) > 0 {
		r.Bucket, r.Limited = bucket, true
		r.Limit, r.Remaining, r.ResetAfter, r.ResetRounding = together(limits)
	}
	if status == http.StatusTooManyRequests {
		refuse(&r, ratelimits.ClassUser)
	}
	return r
}

// longestReset is the longest time until a reset, in seconds: a week, as in a ratelimits.Response.
const longestReset = 7 * 24 * 60 * 60

// limit is what a response says about one policy.
type limit struct {
	quota, remaining int           // requests
	reset, window    time.Duration // window is 0 if it is not known
}

// together combines the limits into one limit. The combined limit resets when the limit with the fewest requests left
// resets. Its quota is the number of requests that all limits allow after that reset. Limits that reset later allow
// only their present number of remaining requests.
func together(limits []limit) (quota, remaining int, reset, rounding time.Duration) {
	urgent := limits[0]
	for _, l := range limits {
		if l.remaining < urgent.remaining || l.remaining == urgent.remaining && l.reset > urgent.reset {
			urgent = l
		}
	}
	quota = urgent.quota
	for _, l := range limits {
		if l.reset <= urgent.reset {
			quota = min(quota, l.quota)
		} else {
			quota = min(quota, l.remaining)
		}
	}
	reset, rounding = urgent.bounds()
	return quota, max(quota-urgent.quota+urgent.remaining, 0), reset, rounding
}

// bounds returns the longest possible time until the limit resets, and by how much the actual time may be shorter.
func (l *limit) bounds() (after, rounding time.Duration) {
	if after = l.reset; l.window == 0 || after < l.window {
		after += time.Second
	}
	return after, after - max(l.reset-time.Second, 0)
}

// limitsOf returns the limits that a response describes completely, and the name of their bucket, which consists of the
// names of all policies.
func limitsOf(header http.Header) (bucket string, limits []limit) {
	services, policies := list(header["Ratelimit"]), list(header["Ratelimit-Policy"])
	named := policies
	if older, ok := olderService(header, services); ok {
		services, policies = []item{older}, append(policies, list(header["Ratelimit-Limit"])...)
	}
	if len(named) == 0 {
		named = services
	}
	for _, n := range named {
		bucket += n.value + n.parameter("pk")
	}
	for _, s := range services {
		l := limit{}
		l.quota, _ = integer(s.value) // in older versions of the draft, the value is the quota
		for _, p := range policies {
			if key := s.parameter("pk"); p.value != s.value || key != "" && p.parameter("pk") != key {
				continue // without pk, a RateLimit is about all policies with its name
			}
			if quota, ok := integer(p.parameter("q")); ok {
				l.quota = quota
			}
			if window, ok := integer(p.parameter("w")); ok {
				l.window = time.Duration(window) * time.Second
			}
			if unit := p.parameter("qu"); unit != "" && unit != `"requests"` {
				l.quota = 0
			}
		}
		remaining, ok := integer(s.parameter("r"))
		reset, timed := integer(s.parameter("t"))
		if timed && reset > longestReset { // the reset is a time, in seconds since 1970
			date, err := http.ParseTime(header.Get("Date"))
			reset -= int(date.Unix())
			timed = err == nil && 0 <= reset && reset <= longestReset
		}
		l.remaining, l.reset = min(remaining, l.quota), time.Duration(reset)*time.Second
		if !timed {
			l.reset = l.window // the limit resets within its window
		}
		if ok && l.quota > 0 && (timed || l.window > 0) {
			limits = append(limits, l)
		}
	}
	return bucket, limits
}

// olderService reads the fields of older versions of the draft. It returns them as an item in the form of the current
// version, with the quota as its value.
func olderService(header http.Header, services []item) (item, bool) {
	fields := map[string]string{
		"limit": header.Get("RateLimit-Limit"), "remaining": header.Get("RateLimit-Remaining"),
		"reset": header.Get("RateLimit-Reset"),
	}
	for _, s := range services {
		if key, value, ok := strings.Cut(s.value, "="); ok {
			fields[key] = value
		}
	}
	quota, _, _ := strings.Cut(fields["limit"], ",") // policies may follow the quota
	return item{quota, []string{"r=" + fields["remaining"], "t=" + fields["reset"]}}, quota != ""
}

// item is a member of a structured list (RFC 9651). Its value and its parameters are not decoded.
type item struct {
	value      string
	parameters []string // such as "q=10"
}

// mostItems bounds how many items of a field are read.
const mostItems = 100

// list parses a field. Inner lists do not occur in these fields, and are not parsed.
func list(values []string) (items []item) {
	for _, text := range split(strings.Join(values, ","), ',') {
		if len(items) == mostItems {
			break
		}
		if parts := split(text, ';'); parts[0] != "" {
			items = append(items, item{parts[0], parts[1:]})
		}
	}
	return items
}

// parameter returns the value of a parameter, or "" if it is absent.
func (i *item) parameter(name string) string {
	for _, p := range i.parameters {
		if key, value, _ := strings.Cut(p, "="); key == name {
			return value
		}
	}
	return ""
}

// integer parses a number from 0 to 2³¹-1. Limits and times are not larger.
func integer(text string) (int, bool) {
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err == nil
}

// split cuts a text at the separators that are not in a quoted string, and trims the parts.
func split(text string, separator byte) (parts []string) {
	quoted, from := false, 0
	for i := 0; i < len(text); i++ {
		switch {
		case quoted && text[i] == '\\':
			i++
		case text[i] == '"':
			quoted = !quoted
		case text[i] == separator && !quoted:
			parts, from = append(parts, strings.TrimSpace(text[from:i])), i+1
		}
	}
	return append(parts, strings.TrimSpace(text[from:]))
}
