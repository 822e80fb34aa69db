package discordgolimit_test

import (
	"testing"

	"github.com/ratelight/ratelight/internal/librarytest"
)

func TestProgramOfTheREADMECompiles(t *testing.T) {
	librarytest.CompileREADME(t, "../../README.md", "github.com/ratelight/ratelight/httpclient/discordgolimit")
}
