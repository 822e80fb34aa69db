package spectacles

import (
	_ "embed"

	"github.com/ratelight/ratelight/buckets/shared"
)

//go:embed lua/begin.lua
var beginLua string

//go:embed lua/claim.lua
var claimLua string

//go:embed lua/report.lua
var reportLua string

//go:embed lua/hold.lua
var holdLua string

var (
	claimScript  = &shared.Script{Name: "spectacles-claim", Source: beginLua + claimLua}
	reportScript = &shared.Script{Name: "spectacles-report", Source: beginLua + reportLua}
	holdScript   = &shared.Script{Name: "spectacles-hold", Source: holdLua}
)

// The first number of a reply that is not a wait.
const (
	replyTooLate = -1 // whoever called had given up
	replyNotOurs = -2 // a key holds what is neither ours nor Spectacles'; which one, and what is wrong with it, follow
)

// problems are what a script finds wrong with a key.
var problems = []string{1: "has another type", 2: "holds a value that is not a number of requests"}
