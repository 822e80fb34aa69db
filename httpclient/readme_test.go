package httpclient_test

import (
	"testing"

	"github.com/ratelight/ratelight/internal/librarytest"
)

// TestWebhookProgramOfTheREADMECompiles compiles that program; those with a library are compiled by the libraries'
// modules.
func TestWebhookProgramOfTheREADMECompiles(t *testing.T) {
	librarytest.CompileREADME(t, "../README.md", "strings")
}
