package postgrestest_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/internal/postgrestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAServerRunsUntilItsTestEnds(t *testing.T) {
	t.Parallel()
	directory := ""
	t.Run("with a server", func(t *testing.T) {
		host, _, _ := strings.Cut(postgrestest.NewServer(t), " ")
		directory = strings.TrimPrefix(host, "host=")
		connection, err := net.Dial("unix", filepath.Join(directory, ".s.PGSQL.5432"))
		require.NoError(t, err)
		assert.NoError(t, connection.Close())
	})
	_, err := os.Stat(directory)
	assert.ErrorIs(t, err, os.ErrNotExist, "the server's directory is removed")
}
