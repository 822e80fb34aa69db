package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestProgramsOfTheREADME compiles the complete programs of the project's README as they stand there. They are tested here because this
// module knows all the libraries that they use.
func TestProgramsOfTheREADME(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	programs := regexp.MustCompile("(?s)```go\n(package main\n.*?)```").FindAllSubmatch(readme, -1)
	require.Len(t, programs, 4, "discordgo, disgo, arikawa and webhooks")
	for i, program := range programs {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "main.go")
			require.NoError(t, os.WriteFile(file, program[1], 0o600))
			said, err := exec.Command("go", "vet", file).CombinedOutput()
			assert.NoError(t, err, string(said))
			formatted, err := exec.Command("gofmt", "-l", file).CombinedOutput()
			assert.NoError(t, err)
			assert.Empty(t, string(formatted), "is not formatted")
		})
	}
}
