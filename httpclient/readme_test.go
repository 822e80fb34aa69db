package httpclient_test

import (
	"testing"

	"github.com/ratelight/ratelight/internal/librarytest"
)

// TestProgramOfTheREADMECompiles compiles the README's program that uses no Discord library. The program that uses one
// is compiled in that library's module.
func TestProgramOfTheREADMECompiles(t *testing.T) {
	librarytest.CompileREADME(t, "../README.md", "github.com/ratelight/ratelight/buckets")
}
