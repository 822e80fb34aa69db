package ratelimits

import "time"

// State is what is known of a window, in a form that another process can go on with. Its times count from when it was taken.
type State struct {
	// Limit is the number of requests per window, 0 if it is not known.
	Limit int
	// Used is how many requests are charged that were answered, or never will be.
	Used int
	// Reset is how long it takes until all of those have certainly come back, 0 if they have.
	Reset time.Duration
	// Period is the length of the window, as far as it is known.
	Period time.Duration
	// Stamp is the largest Response.Stamp that was seen, 0 if there was none. It names the window.
	Stamp int64
	// Hold is how long nothing may be sent, and HoldClass of which 429.
	Hold      time.Duration
	HoldClass Class
	// Probing says that after the hold one request has to succeed before the others follow.
	Probing bool
	// Unlimited says that responses carry no limits.
	Unlimited bool
}
