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

// If a script has not done its work, its reply begins with one of these numbers.
const (
	replyTooLate = -1 // the call reached the server after its timeout
	replyNotOurs = -2 // a key holds a foreign value; the numbers of the key and of the problem follow
)

// problems lists the problems with a key that a script detects, by number.
var problems = []string{1: "has another type", 2: "holds a value that is not a number of requests"}
