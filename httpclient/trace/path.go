package trace

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"strings"
	"time"
)

const (
	// interactionToken is the prefix of interaction tokens. Requests with such a token have another route than requests
	// with the token of a webhook.
	interactionToken = "aW50ZXJhY3Rpb246"
	interaction      = " (interaction)"
	young            = " (younger than 10 s)"
	old              = " (older than 14 days)"
)

// appendRequest appends the method of the request and a path that has the same route, but other parameters. A number
// replaces the major parameter, which is always the first parameter, and another number replaces the token if there is
// one.
func (r *Recorder) appendRequest(line []byte, e *entry) []byte {
	method, template, _ := strings.Cut(e.event.Route, " ")
	template, variant, _ := strings.Cut(template, " (")
	if variant != "" {
		variant = " (" + variant
	}
	if method == "{method}" {
		method = "OTHER"
	}
	line = append(append(line, method...), ',')
	first := true
	for segment := range strings.SplitSeq(strings.TrimPrefix(template, "/"), "/") {
		line = append(line, '/')
		switch {
		case !strings.HasPrefix(segment, "{"):
			line = append(line, segment...)
		case first && e.event.Major != "-":
			line = strconv.AppendUint(line, r.number(e.event.Major, 0), 10)
		case strings.HasSuffix(segment, "_token}"):
			if variant == interaction {
				line = append(line, interactionToken...)
			}
			line = strconv.AppendUint(append(line, 't'), r.number(e.event.Major, e.event.TokenHash), 36)
		case segment == "{message_id}":
			line = strconv.AppendInt(line, messageID(variant, e.at), 10)
		case strings.HasSuffix(segment, "_id}") || segment == "{id}":
			line = append(line, '1')
		default:
			line = append(line, "x-x"...)
		}
		first = first && !strings.HasPrefix(segment, "{")
	}
	return line
}

// number returns the number that replaces a major parameter (if tokenHash is 0) or a token. The number has 18 digits,
// like an id.
func (r *Recorder) number(major string, tokenHash uint64) uint64 {
	h := hmac.New(sha256.New, r.key[:])
	_, _ = h.Write([]byte(major))
	_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, tokenHash))
	const digits = 100_000_000_000_000_000
	return digits + binary.LittleEndian.Uint64(h.Sum(nil))%(9*digits)
}

// messageID returns the id of a message that has the age required by the variant of the route. The upper bits of an id
// are milliseconds since 2015 (Discord's documentation).
func messageID(variant string, at time.Time) int64 {
	age := time.Hour
	switch variant {
	case young:
		age = 0
	case old:
		age = 15 * 24 * time.Hour
	}
	return (at.Add(-age).UnixMilli() - 1420070400000) << 22
}
