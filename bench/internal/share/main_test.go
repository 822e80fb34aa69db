package share

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// This program is the processes as well.
func TestMain(m *testing.M) {
	if os.Getenv(ChildVariable) != "" {
		if err := Child(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// The client sleeps for up to a second after it was closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}
