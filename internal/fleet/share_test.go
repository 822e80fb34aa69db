package fleet_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/fleet"
)

// Applications do not see each other.
func TestProcessesMayShareInDifferentWays(t *testing.T) {
	t.Parallel()
	var asked []int
	share := func(process int, engine shared.Engine) (shared.Source, error) {
		asked = append(asked, process)
		return shared.New(engine, shared.WithApplication(fmt.Sprintf("version %d", process%2)))
	}
	config := bucket(discordsim.Rule{Quota: discordsim.Unlimited()})
	inBubble(t, fleet.Config{Processes: 4, Discord: config, Buckets: unlimited, Share: share}, func(t *testing.T, f *fleet.Fleet) {
		for _, p := range f.Processes {
			require.Equal(t, 200, p.Do(t.Context(), fleet.Message(1)).Status)
		}
		assert.Equal(t, []int{0, 1, 2, 3}, asked)
		keys := strings.Join(f.Engine.Keys(), " ")
		assert.Contains(t, keys, "{version 0}")
		assert.Contains(t, keys, "{version 1}")
	})
}
