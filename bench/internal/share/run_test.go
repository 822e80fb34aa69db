package share

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTry(t *testing.T) {
	o := Options{Processes: 4, Length: 20 * time.Second, Seed: 1, Begin: func(s string) { t.Log(s) }, Disturb: os.Getenv("DISTURB") != ""}
	if o.Disturb {
		o.Length = LengthOfAccidents
	}
	r, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, r.WriteText(os.Stdout))
}
