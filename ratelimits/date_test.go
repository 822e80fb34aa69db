package ratelimits

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDatesAreReadInTheFormsOfHTTP(t *testing.T) {
	t.Parallel()
	want := time.Date(2016, time.August, 2, 21, 23, 43, 0, time.UTC)
	for _, text := range []string{
		"Tue, 02 Aug 2016 21:23:43 GMT", "Tuesday, 02-Aug-16 21:23:43 GMT", "Tue Aug  2 21:23:43 2016",
	} {
		date, ok := parseDate(text)
		assert.True(t, ok, text)
		assert.True(t, want.Equal(date), text)
	}
	for _, text := range []string{"", "soon", "1470173023", "Tue, 32 Aug 2016 21:23:43 GMT"} {
		_, ok := parseDate(text)
		assert.False(t, ok, text)
	}
}

func TestReadingADateDoesNotAllocate(t *testing.T) {
	require.Zero(t, testing.AllocsPerRun(100, func() { parseDate("Tue, 02 Aug 2016 21:23:43 GMT") }))
}
