package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/internal/discordsim"
)

func TestEfficiencyIsTheIdealsPartOfTheTimeIfAllWasDone(t *testing.T) {
	t.Parallel()
	r := result{Calls: 10, GivenUp: 2, OK: 8, Ideal: 3 * time.Second, Took: 4 * time.Second}
	assert.Equal(t, 0.75, r.efficiency())
	r.OK = 7
	assert.Zero(t, r.efficiency())
}

func TestCellsAndRemarksSayWhatWentWrong(t *testing.T) {
	t.Parallel()
	done := result{Calls: 10, OK: 10, Ideal: 956 * time.Millisecond, Took: time.Second}
	refused := done
	refused.Refused = discordsim.ByClass{User: 3, Global: 4}
	failed := result{Calls: 10, OK: 7, GivenUp: 1}
	failed.note(call{}, errors.New("status 429\nand a body"), 0, 0)
	failed.note(call{}, errors.New("another"), 0, 0)
	failed.NeverEnded = 0
	late := done
	late.Late = 1500 * time.Millisecond
	for _, test := range []struct {
		r              result
		cell, remarked string
	}{
		{done, "0.96", ""},
		{refused, "0.96 (7)", ""},
		{failed, "2 fail", "2 failed: status 429"},
		{result{Calls: 10, OK: 6, NeverEnded: 4, Refused: discordsim.ByClass{User: 1}}, "4 hang (1)", "4 never ended"},
		{result{Calls: 10, NeverEnded: 10, Note: "crashed: exit status 2: panic: …"},
			"failed", "FAILED: crashed: exit status 2: panic: …"},
		{late, "0.96", "given-up calls end up to 1.5 s late"},
	} {
		assert.Equal(t, test.cell, summary(test.r))
		assert.Equal(t, test.remarked, test.r.remarks())
	}
	assert.Equal(t, strings.Repeat("é", 9)+"…", shortened(strings.Repeat("é", 11), 10))
}
