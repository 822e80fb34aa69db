package ratelimits

import "time"

const (
	// contestedTurns is for how many windows after an unexpected 429 one request goes first.
	// A window counts twice as long as the bucket's kind is not proven: it ends by time, and again when a response says so.
	contestedTurns = 4
	// maxStrikes bounds what repeated surprises cost: 2^maxStrikes windows of one request at a time.
	maxStrikes = 5
)

// surprises are the 429s of a bucket, none of which was to be expected by what was known: somebody else uses the bucket, or
// its headers are wrong. Those in close succession become dearer: the first costs a probe before each of the next windows,
// the others whole windows with one request at a time.
type surprises struct {
	last      time.Duration // when the latest came; 0: none has
	turn      uint32        // of the window, then
	strikes   uint8         // how many have followed each other closely
	serial    uint8         // windows for which only one request at a time goes
	contested uint8         // windows that begin with one request alone
}

// note takes in a surprise: the answer to a request that was sent at the given time. Those that were in flight together
// count once.
func (s *surprises) note(now, sent time.Duration, turn uint32) {
	if s.last == 0 || sent >= s.last {
		if s.last > 0 && turn-s.turn <= contestedTurns {
			s.strikes = min(s.strikes+1, maxStrikes)
		} else {
			s.strikes = 0
		}
		s.turn = turn
		s.serial = 1<<s.strikes - 1
	}
	s.last = now
	s.contested = contestedTurns
}

// calm ends what the surprises cost, when it is proven how the bucket works.
func (s *surprises) calm() { s.serial, s.contested = 0, 0 }

func (s *surprises) nextTurn() {
	s.serial -= min(s.serial, 1)
	s.contested -= min(s.contested, 1)
}
