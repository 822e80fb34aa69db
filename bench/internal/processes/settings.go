package processes

import "time"

// Settings are about the run and not about the scenario.
type Settings struct {
	Processes int
	// Length is how long requests are made, about.
	Length time.Duration
	Seed   uint64
	// Disturb has accidents happen.
	Disturb bool
	// Outage is what processes do while the engine is away, the name of a shared.Outage; "": wait.
	Outage string
	// Executable is this program, see [ChildVariable].
	Executable string
	// Done is called for every request that has an outcome. It may be nil.
	Done func()

	launch launch // in place of the executable, for tests
}

const (
	// DefaultLength is how long a scenario takes, about.
	DefaultLength = 20 * time.Second
	// LengthOfAccidents is how long one takes at least in which accidents happen.
	LengthOfAccidents = 70 * time.Second
)
