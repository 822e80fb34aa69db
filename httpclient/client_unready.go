package httpclient

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

const (
	// maxAsked bounds how often a request is sent that Discord is not ready for: with the usual wait, two and a half minutes.
	maxAsked = 30
	// usualUnready is the wait if the response asks for none (observed by client authors).
	usualUnready = 5 * time.Second
	// codeUnreadyMillis is the one code whose retry_after is in milliseconds (observed by client authors).
	codeUnreadyMillis = 110001
)

// unready reports whether the response says that Discord is still getting ready for the request, and how long to wait.
func (r *Response) unready() (time.Duration, bool) {
	if r.Status != http.StatusAccepted {
		return 0, false
	}
	var body struct {
		Code       json.RawMessage `json:"code"`
		RetryAfter json.RawMessage `json:"retry_after"`
	}
	if json.Unmarshal(decoded(r.Header, r.Body, maxErrorBody), &body) != nil {
		return 0, false
	}
	code, _ := number(body.Code)
	after, asked := number(body.RetryAfter)
	if !asked && (code < 110_000 || code >= 120_000) {
		return 0, false
	}
	unit := time.Second
	if code == codeUnreadyMillis {
		unit = time.Millisecond
	}
	after *= float64(unit)
	switch {
	case after <= 0:
		return usualUnready, true
	case after >= float64(ratelimits.LongestTrust):
		return ratelimits.LongestTrust, true
	}
	return time.Duration(after), true
}

// number reads a number that makes sense as a wait or a code. A string with a number in it is one too.
func number(raw json.RawMessage) (float64, bool) {
	text := string(raw)
	if strings.HasPrefix(text, `"`) && json.Unmarshal(raw, &text) != nil {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0) || math.IsInf(n, 0) {
		return 0, false
	}
	return n, true
}

// pause waits before the request is sent again. The wait is bounded like those in queues, and as early.
func (c *Client) pause(ctx context.Context, route routes.CompiledRoute, wait time.Duration) error {
	if err := waitError(ctx, route, wait, c.transport.maxRateLimit()); err != nil {
		return err
	}
	return sleep(ctx, c.transport.life, wait, nil)
}
