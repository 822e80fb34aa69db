package shared

import (
	"time"

	"github.com/ratelight/ratelight/buckets"
)

type parts struct{}

func (s *session) startParts() {}
func (s *session) closeParts() {}

// Global returns the global limit of a credential.
func (s *session) Global(credential string, limit int, changed func()) buckets.SharedGlobal {
	return global{}
}

// Discovery returns what is needed to find out the bucket hash of a route.
func (s *session) Discovery(credential, route string, changed func()) buckets.SharedDiscovery {
	return discovery{}
}

// Invalid counts an invalid response.
func (s *session) Invalid() int { return 0 }

// Others returns how many the other processes have counted.
func (s *session) Others() int { return 0 }

type global struct{}

func (global) Part(time.Duration) (int, time.Duration) { return 0, 0 }
func (global) Need(time.Duration, int)                 {}
func (global) HoldWait(time.Duration) time.Duration    { return 0 }
func (global) Hold(time.Duration, time.Duration)       {}
func (global) Err() error                              { return nil }
func (global) Close()                                  {}

type discovery struct{}

func (discovery) Ask(time.Duration)           {}
func (discovery) May(time.Duration) bool      { return false }
func (discovery) Hash() string                { return "" }
func (discovery) Found(time.Duration, string) {}
func (discovery) Err() error                  { return nil }
func (discovery) Close()                      {}
