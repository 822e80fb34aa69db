package shared_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/memoryengine"
	"github.com/ratelight/ratelight/ratelimits"
)

// A process learns something about a bucket that is lent to another process: from a request that turns out to belong
// there, or from its manager. None of its own requests waits for the bucket. Its knowledge must still reach the holder
// and all other processes.
func TestWhatIsLearntOfALentBucketReachesItsHolder(t *testing.T) {
	const asked = 6 * time.Second
	inBucket := func(r ratelimits.Response) ratelimits.Response {
		r.Limited, r.Limit, r.Remaining, r.ResetAfter, r.Stamp = true, 5, 0, asked, 9000
		return r
	}
	for name, learn := range map[string]func(u *user){
		"429":         func(u *user) { u.adopt(); u.answer(inBucket(refusal(ratelimits.ClassUser, asked))) },
		"shared 429":  func(u *user) { u.adopt(); u.answer(refusal(ratelimits.ClassShared, asked)) },
		"remaining 0": func(u *user) { u.adopt(); u.answer(headers(5, 0, asked, 9000)) },
		"hold":        func(u *user) { u.bucket.Hold(u.now(), asked, ratelimits.ClassShared) },
	} {
		for way, how := range map[string]struct {
			begin func(w *world, b *user)
			end   func(w *world, b *user)
		}{
			"with messages":    {},
			"without":          {begin: func(w *world, _ *user) { w.server.SetQuiet(true) }},
			"reply is lost":    {begin: func(w *world, _ *user) { w.fates("swap", memoryengine.Fate{LostReply: true}) }},
			"call is lost":     {begin: func(w *world, _ *user) { w.fates("swap", memoryengine.Fate{Lost: true}) }},
			"bucket is closed": {end: func(_ *world, b *user) { b.bucket.Close() }},
			"session closes":   {end: func(_ *world, b *user) { go b.session.Close() }},
		} {
			t.Run(name+", "+way, func(t *testing.T) {
				inWorld(t, func(w *world) {
					a, b := w.limited()
					pass(5 * time.Second)
					a.join(1)
					pass(10 * ms)
					require.True(t, a.lent)
					if how.begin != nil {
						how.begin(w, b)
					}
					start := w.now()
					learn(b)
					if how.end != nil {
						how.end(w, b)
					}
					for !a.wanted() {
						require.Less(t, w.now()-start, 2*time.Second)
						pass(50 * ms)
					}
					a.giveBack(ratelimits.State{Limit: 5, Used: 1, Reset: ms, Period: time.Second})
					pass(1500 * ms)
					before := a.leaves()
					a.join(1)
					for w.now()-start < asked-50*ms {
						require.False(t, a.mayOrOwns(), "it may send after %v", w.now()-start)
						require.Equal(t, before, a.leaves(), "sent after %v", w.now()-start)
						pass(50 * ms)
					}
					pass(3 * time.Second)
					assert.True(t, a.leaves() > before || a.lent, "it is over")
				})
			})
		}
	}
}
