package httpclient_test

import (
	"testing"

	"github.com/ratelight/ratelight/internal/librarytest"
)

// TestProgramOfTheREADMECompiles compiles the program that needs no library; the other one is compiled by its library's
// module.
func TestProgramOfTheREADMECompiles(t *testing.T) {
	librarytest.CompileREADME(t, "../README.md", "github.com/ratelight/ratelight/buckets")
}
