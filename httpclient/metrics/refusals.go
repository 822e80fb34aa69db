package metrics

import (
	"context"
	"errors"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/ratelimits"
)

// refusals are the reasons why requests are not sent. Managers count the first ones, if there is one.
var refusals = [...]string{"too_long", "queue_full", "invalid_budget", "cancelled", "credential", "closed"}

const byTransports = 4 // the first reason that no manager knows, or counts

// refusalsOf returns what a manager has counted, in the order of the reasons.
func refusalsOf(s *buckets.Stats) [byTransports]uint64 {
	return [...]uint64{s.TooLong, s.QueueFull, s.OverBudget, s.Cancelled}
}

// refusalOf returns the number of the reason why a request was not sent, or not sent again, -1 if it failed otherwise.
func refusalOf(e *httpclient.DoneEvent) int {
	var tooLong *ratelimits.TooLongError
	var queueFull *ratelimits.QueueFullError
	var overBudget *ratelimits.BudgetError
	var credential *httpclient.CredentialError
	switch err := e.Err; {
	case errors.As(err, &tooLong):
		return 0
	case errors.As(err, &queueFull):
		return 1
	case errors.As(err, &overBudget):
		return 2
	case errors.As(err, &credential):
		return 4
	case errors.Is(err, buckets.ErrClosed):
		return 5
	case e.Attempts == 0 && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		return 3
	}
	return -1
}
