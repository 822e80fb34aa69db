package metrics

import (
	"context"
	"errors"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/ratelimits"
)

// refusals lists the reasons why requests are not sent. A manager counts requests for the first countedByManager
// reasons. Transports count requests for the other reasons, and for all reasons if there is no manager.
var refusals = [...]string{
	"too_long", "queue_full", "invalid_budget", "cancelled", "superseded",
	"credential", "closed",
}

const countedByManager = 5

// refusalsOf returns, for each reason that a manager counts, how many requests the manager has counted. The order of
// the reasons is that of the variable refusals.
func refusalsOf(s *buckets.Stats) [countedByManager]uint64 {
	return [...]uint64{s.TooLong, s.QueueFull, s.OverBudget, s.Cancelled, s.Superseded}
}

// refusalOf returns why a request was not sent, or not sent again, as an index of the variable refusals. It returns -1
// if the request failed for another reason.
func refusalOf(e *httpclient.DoneEvent) int {
	var tooLong *ratelimits.TooLongError
	var queueFull *ratelimits.QueueFullError
	var overBudget *ratelimits.BudgetError
	var superseded *ratelimits.SupersededError
	var credential *httpclient.CredentialError
	switch err := e.Err; {
	case errors.As(err, &tooLong):
		return 0
	case errors.As(err, &queueFull):
		return 1
	case errors.As(err, &overBudget):
		return 2
	case errors.As(err, &superseded):
		return 4
	case errors.As(err, &credential):
		return 5
	case errors.Is(err, buckets.ErrClosed):
		return 6
	case e.Attempts == 0 && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		return 3
	}
	return -1
}
