// Package discordjs tests the examples for Node in this folder.
package discordjs

import (
	"context"
	"fmt"
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

func TestDiscordJSThroughTheProxy(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	folder := t.TempDir()
	for _, name := range []string{"package.json", "index.mjs", "stream.mjs"} {
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
		t.Skipf("the test needs Node and %s: %v %s", "@discordjs/rest", err, output)
	}
	t.Setenv("TOKEN", "token")
	t.Setenv("CHANNEL", "1")
	t.Setenv("MESSAGE", "2")

	through := func(t *testing.T, server *discordtest.Server, program string) string {
		handler, err := proxy.New(proxy.WithUpstream(server.URL))
		require.NoError(t, err)
		defer handler.Close()
		front := httptest.NewServer(handler)
		defer front.Close()
		t.Setenv("API", front.URL+"/api")
		output, err := run("node", program)
		require.NoError(t, err, "%s", output)
		assert.Empty(t, server.Refused())
		return string(output)
	}
	t.Run("twelve messages", func(t *testing.T) {
		server := discordtest.NewServer(t, discordtest.Window("create_message", 5, time.Second),
			discordtest.Answer("create_message", 200, map[string]any{"id": "1"}))
		assert.Equal(t, "12 of 12 sent\n", through(t, server, "index.mjs"))
		assert.Len(t, server.Requests(), 12)
	})
	t.Run("a stream of edits", func(t *testing.T) {
		server := discordtest.NewServer(t, discordtest.Window("update_message", 5, time.Second),
			discordtest.Answer("update_message", 200, map[string]any{"id": "2"}))
		output := through(t, server, "stream.mjs")
		requests := server.Requests()
		assert.Equal(t, fmt.Sprintf("%d of 100 edits sent\n", len(requests)), output)
		assert.Less(t, len(requests), 50)
		assert.Contains(t, string(requests[len(requests)-1].Body), "word 100", "the reader sees the latest edit")
	})
}
