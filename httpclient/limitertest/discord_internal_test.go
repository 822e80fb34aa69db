package limitertest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// The fake Discord must get all parts of a request by which it counts, and must apply the limits that a case changes.
func TestDiscordIsToldWhatItCountsBy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		trial := &trial{ctx: t.Context(), discord: newDiscord(discordsim.Unlimited())}
		trial.play("limit message1 fixed 1/1s one; limit history1 fixed 1/1s one")
		trial.discord.faults(refuses(5, "sub-limit", time.Second))
		for _, r := range []struct {
			spec   string
			status int
			why    string
		}{
			{"message1", 200, "the first request"},
			{"history1", 429, "the same hash and major parameter"},
			{"message2", 200, "another major parameter"},
			{"message1+other", 200, "another credential"},
			{"rename3+content", 429, "refused by the fault"},
			{"rename3+content", 429, "the hold of the fault is not over"},
			{"rename3+embeds", 200, "other fields"},
		} {
			assert.Equal(t, r.status, trial.discord.process(trial.newCall(r.spec).request).Status, r.why)
		}
		assert.Equal(t, tally{arrived: 7, accepted: 4, refused: 2}, trial.discord.tally(), "all 429s but that of the fault")
	})
}
