package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient/internal/message"
	"github.com/ratelight/ratelight/httpclient/internal/wait"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

const (
	// maxAsked bounds how often a request is sent in total while Discord is not ready. If each wait is usualUnready, the
	// waits take about two and a half minutes.
	maxAsked = 30
	// usualUnready is the wait if the response names no wait or a wait of 0 (observed by client authors).
	usualUnready = 5 * time.Second
	// codeUnreadyMillis is the only code whose retry_after is in milliseconds (observed by client authors).
	codeUnreadyMillis = 110001
)

// unready returns how long to wait, and whether the response says that Discord is not ready for the request yet.
func (r *Response) unready() (time.Duration, bool) {
	if r.Status != http.StatusAccepted {
		return 0, false
	}
	var body struct {
		Code       json.RawMessage `json:"code"`
		RetryAfter json.RawMessage `json:"retry_after"`
	}
	if json.Unmarshal(message.Decoded(r.Header, r.Body, maxErrorBody), &body) != nil {
		return 0, false
	}
	code, _ := message.Number(body.Code)
	after, asked := message.Number(body.RetryAfter)
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

// pause waits for d before the request is sent again. Like a wait in a queue, it fails at once if d is too long.
func (c *Client) pause(ctx context.Context, route routes.CompiledRoute, d time.Duration) error {
	longest := buckets.DefaultMaxRateLimit
	if manager := c.transport.Manager(); manager != nil {
		longest = manager.MaxRateLimit()
	}
	if err := wait.Check(ctx, route, d, longest); err != nil {
		return err
	}
	return wait.For(ctx, c.life, d, nil)
}
