// Package discordjs tests the example beside it, which is for Node.
package discordjs

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/httpclient/proxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDiscordJSSendsThroughTheProxy(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	folder := t.TempDir()
	for _, name := range []string{"package.json", "index.mjs"} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), text, 0o600))
	}
	run := func(name string, arguments ...string) ([]byte, error) {
		command := exec.CommandContext(ctx, name, arguments...)
		command.Dir = folder
		return command.CombinedOutput()
	}
	if output, err := run("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"); err != nil {
		t.Skipf("it needs Node, and %s: %v %s", "@discordjs/rest", err, output)
	}

	server := discordtest.NewServer(t, discordtest.Window("create_message", 5, time.Second),
		discordtest.Answer("create_message", 200, map[string]any{"id": "1"}))
	handler, err := proxy.New(proxy.WithUpstream(server.URL))
	require.NoError(t, err)
	defer handler.Close()
	front := httptest.NewServer(handler)
	defer front.Close()
	t.Setenv("API", front.URL+"/api")
	t.Setenv("TOKEN", "token")
	t.Setenv("CHANNEL", "1")
	output, err := run("node", "index.mjs")
	require.NoError(t, err, "%s", output)
	assert.Equal(t, "12 of 12 sent\n", string(output))
	assert.Len(t, server.Requests(), 12)
	assert.Empty(t, server.Refused())
}
