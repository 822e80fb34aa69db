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

// A reply that is not a result begins with one of these numbers.
const (
	replyTooLate = -1 // the call arrived after its timeout
	replyNotOurs = -2 // a key holds a foreign value; the number of the key and of the problem follow
)

// problems are the problems with a key that a script detects.
var problems = []string{1: "has another type", 2: "holds a value that is not a number of requests"}
