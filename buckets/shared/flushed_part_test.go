package shared_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// The engine loses the division of a global limit of one request a second, a moment before a second process needs a
// part.
func TestPartOfAnotherIsNotGivenTwiceAfterALoss(t *testing.T) {
	steps := []step{
		{"need", 0, 1, 1027}, {"join", 1, 2, 1993}, {"need", 5, 1, 759}, {"need", 7, 100, 3923}, {"need", 7, 65, 3158},
		{"flush", 0, 1, 0}, {"need", 0, 47, 13},
	}
	onStage(t, func(f *stage) {
		s := &schedule{stage: f, limit: 1, random: rand.New(rand.NewPCG(0, 1))}
		require.NoError(t, s.run(steps))
	})
}
