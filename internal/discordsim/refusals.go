package discordsim

import (
	"encoding/json"
	"math"
	"strconv"
)

// The faults in this file change how a server writes its 429s. Other faults can also apply to the same request.

// WithoutScope leaves X-RateLimit-Scope out of every 429, as old servers and compatible servers do.
func WithoutScope() Fault { return Fault{Also: true, Drop: []string{headerScope}} }

// MillisecondBodies gives retry_after in milliseconds, and leaves Retry-After in seconds. Some compatible servers do
// this, and Discord did it until version 8 of its API. With preciseHeader, the header has decimals, for example 0.91
// for 910 in the body.
func MillisecondBodies(preciseHeader bool) Fault {
	return editRefusals(func(response *Response, body *limitBody) {
		if body.RetryAfter == nil {
			return
		}
		if preciseHeader && response.Header.Get(headerRetryAfter) != "" {
			response.Header.Set(headerRetryAfter, strconv.FormatFloat(*body.RetryAfter, 'f', -1, 64))
		}
		*body.RetryAfter = math.Round(*body.RetryAfter * 1000)
	})
}

// HeadersUntilFull makes Retry-After the time until the bucket is empty again. The body's retry_after stays the time
// until one request is accepted. This was observed at Discord's sliding buckets.
func HeadersUntilFull() Fault {
	return editRefusals(func(response *Response, _ *limitBody) {
		if reset, ok := readNumber(response.Header.Get(headerResetAfter)); ok && response.Class == ClassUser {
			response.Header.Set(headerRetryAfter, strconv.Itoa(int(math.Ceil(reset))))
		}
	})
}

// ShortHeaders makes every Retry-After one second, whatever the body says. This was observed on Discord for edits of
// crossposted messages, where the body said 1163 seconds.
func ShortHeaders() Fault {
	return editRefusals(func(response *Response, _ *limitBody) {
		if response.Header.Get(headerRetryAfter) != "" {
			response.Header.Set(headerRetryAfter, "1")
		}
	})
}

// WithoutRetryAfter leaves the time out of every 429, in the header and in the body.
func WithoutRetryAfter() Fault {
	return editRefusals(func(response *Response, body *limitBody) {
		response.Header.Del(headerRetryAfter)
		body.RetryAfter = nil
	})
}

// editRefusals returns a fault that calls edit for every 429 of the API and writes the changed body.
func editRefusals(edit func(*Response, *limitBody)) Fault {
	return Fault{Also: true, Edit: func(_ Call, response *Response) {
		var body limitBody
		if response.Class == ClassNone || json.Unmarshal(response.Body, &body) != nil {
			return
		}
		edit(response, &body)
		response.Body = body.encode()
	}}
}
