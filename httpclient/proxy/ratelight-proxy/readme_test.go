package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The README must list every flag, and every environment variable that the command takes over from other proxies.
func TestTheREADMENamesEveryFlag(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	var help bytes.Buffer
	require.Equal(t, 0, run(t.Context(), []string{"--help"}, &help, &help))
	flags := regexp.MustCompile(`(?m)^ {6}(--[a-z-]+)`).FindAllStringSubmatch(help.String(), -1)
	assert.Greater(t, len(flags), 20)
	for _, flag := range flags {
		if flag[1] != "--version" {
			assert.True(t, strings.Contains(string(text), "`"+flag[1]+"`"), flag[1])
		}
	}
	for _, name := range []string{
		"HOST", "PORT", "BIND_IP", "METRICS_PORT", "LOG_LEVEL", "REQUEST_TIMEOUT", "BOT_RATELIMIT_OVERRIDES",
	} {
		assert.True(t, strings.Contains(string(text), "`"+name+"`"), name)
	}
}
