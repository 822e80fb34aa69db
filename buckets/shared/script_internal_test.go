package shared

import (
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestScriptsHaveNoTimesOfTheirOwn tests that what scripts and this package have to agree on is written down once.
func TestScriptsHaveNoTimesOfTheirOwn(t *testing.T) {
	units := []string{"999", "1000", "1000000"} // bytes at a time, seconds and milliseconds of TIME
	own := []string{"250", "60000"}             // nobody else needs to know
	long := regexp.MustCompile(`\b\d{3,}\b`)
	comment := regexp.MustCompile(`--.*`)
	files, err := lua.ReadDir("lua")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := lua.ReadFile("lua/" + file.Name())
		require.NoError(t, err)
		for _, number := range long.FindAllString(comment.ReplaceAllString(string(text), ""), -1) {
			assert.True(t, slices.Contains(units, number) || slices.Contains(own, number), "%s contains %s: let script.go define it", file.Name(), number)
		}
	}
}
