package soak

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lengthVariable says how long TestSoak is to last, such as 24h.
const lengthVariable = "RATELIGHT_SOAK"

// TestSoak soaks for ten minutes of virtual time. For a day, which takes a few minutes:
//
//	RATELIGHT_SOAK=24h go test ./bench/internal/soak -run TestSoak -v
func TestSoak(t *testing.T) {
	length := 10 * time.Minute
	if given := os.Getenv(lengthVariable); given != "" {
		var err error
		length, err = time.ParseDuration(given)
		require.NoError(t, err)
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC))) // the ids of messages begin with 2015
		result, err := Run(t.Context(), Config{Length: length, Seed: 1, Virtual: true, Rest: synctest.Wait})
		require.NoError(t, err)
		var table strings.Builder
		result.Write(&table)
		t.Log("\n" + table.String())
		assert.Empty(t, result.Broken)
	})
}
