package statefile_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(killedPath); path != "" {
		writeUntilKilled(path)
	}
	goleak.VerifyTestMain(m)
}
