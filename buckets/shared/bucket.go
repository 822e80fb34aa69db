package shared

import (
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

type agents struct{}

func (s *session) startAgents() {}
func (s *session) closeAgents() {}

// Bucket returns the bucket of that name.
func (s *session) Bucket(key buckets.SharedKey, changed func()) buckets.SharedBucket {
	return &bucket{}
}

type bucket struct{}

func (b *bucket) Join(now time.Duration, front bool) buckets.Ticket                 { return 0 }
func (b *bucket) Leave(now time.Duration, t buckets.Ticket)                         {}
func (b *bucket) Granted(now time.Duration) (buckets.Ticket, bool)                  { return 0, false }
func (b *bucket) Take(now time.Duration, t buckets.Ticket)                          {}
func (b *bucket) Report(now time.Duration, t buckets.Ticket, r ratelimits.Response) {}
func (b *bucket) Hold(now, d time.Duration, class ratelimits.Class)                 {}
func (b *bucket) Charge(now time.Duration, r ratelimits.Response)                   {}
func (b *bucket) Forecast(now time.Duration, ahead int) (f buckets.SharedForecast)  { return }
func (b *bucket) Answered(t buckets.Ticket) bool                                    { return false }
func (b *bucket) Err() error                                                        { return nil }
func (b *bucket) Loan(now time.Duration) *buckets.SharedLoan                        { return nil }
func (b *bucket) Until() time.Duration                                              { return 0 }
func (b *bucket) Wanted() bool                                                      { return false }
func (b *bucket) Return(time.Duration, ratelimits.State, []time.Duration) []buckets.Ticket {
	return nil
}
func (b *bucket) Close() {}
