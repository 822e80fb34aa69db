package main

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// act runs a scenario in a process with the behaviour that as names.
func act(t *testing.T, ctx context.Context, as string, limit time.Duration) result {
	t.Setenv(actVariable, as)
	s := scenarios(true)[2]
	return apart(ctx, newResult(contender{name: "ratelight"}, s, time.Second), s, options{quick: true, seed: 3}, limit)
}

func TestAProcessOfItsOwnMeasures(t *testing.T) {
	r := act(t, t.Context(), "peers", time.Minute)
	assert.Empty(t, r.Note)
	assert.Equal(t, "ratelight", r.Contender)
	assert.Equal(t, 54, r.Calls)
	assert.Equal(t, 54, r.OK, "all calls of the quick scenario")
}

func TestWhatGoesWrongInAProcessIsNoted(t *testing.T) {
	for as, note := range map[string]string{
		"crash":                  "crashed: exit status 2: panic: as a library might",
		"crash after the result": "crashed: exit status 66",
		"babble":                 "ended without a result",
	} {
		r := act(t, t.Context(), as, time.Minute)
		assert.Contains(t, r.Note, note)
		if as == "crash after the result" {
			assert.Equal(t, 5, r.OK, "the part of the result that was written counts")
		}
	}
}

func TestAProcessThatHangsIsKilled(t *testing.T) {
	r := act(t, t.Context(), "hang", time.Millisecond)
	assert.Equal(t, "killed after 0s", r.Note)
	assert.Equal(t, 54, r.Calls)
	assert.Zero(t, r.OK)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Equal(t, "interrupted", act(t, ctx, "hang", time.Minute).Note)
}

// A contender that crashed has counted nothing. The tables must not show 0 for that.
func TestAContenderThatCrashedHasFailed(t *testing.T) {
	t.Setenv(actVariable, "crash")
	o, err := parse([]string{"-quick", "-scenario", "one-limit", "-contender", "ratelight"}, nil)
	require.NoError(t, err)
	r, err := compare(t.Context(), o, io.Discard)
	require.NoError(t, err)
	var text, document bytes.Buffer
	require.NoError(t, r.WriteText(&text))
	assert.Regexp(t, `(?m)^ratelight( +–)+ +FAILED: crashed: exit status 2: panic: as a library might`, text.String())
	assert.Regexp(t, `(?m)^ratelight +failed +failed$`, text.String())
	require.NoError(t, r.WriteJSON(&document))
	assert.Contains(t, document.String(), `"refused": null,`)
	assert.Contains(t, document.String(), `"calls": 14,`)
}
