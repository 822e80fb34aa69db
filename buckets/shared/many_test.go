package shared_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/internal/memoryengine"
)

// distant makes each call take about a round trip; no two take exactly the same time.
func (f *stage) distant(trip time.Duration) {
	r := rand.New(rand.NewPCG(1, 2))
	half := func() time.Duration { return trip/2 + time.Duration(r.IntN(100))*time.Microsecond }
	f.memory.Decide(func(string) memoryengine.Fate { return memoryengine.Fate{Before: half(), After: half()} })
}

func TestManyThatStartTogetherHaveTheirPartsSoon(t *testing.T) {
	for _, test := range []struct {
		sessions int
		trip     time.Duration
		longest  time.Duration
		calls    int
	}{
		{8, 400 * ms, 7 * time.Second, 110},
		{20, 5 * ms, 1600 * ms, 400},
	} {
		onStage(t, func(f *stage) {
			f.distant(test.trip)
			var all []*sender
			for range test.sessions {
				s := f.sender(50)
				defer s.end()
				all = append(all, s)
			}
			for _, s := range all {
				s.send(200)
			}
			f.until(test.longest, func() bool {
				return !slices.ContainsFunc(all, func(s *sender) bool { return s.part() == 0 && s.waiting() == 200 })
			})
			assert.LessOrEqual(t, f.memory.Calls()["part"], test.calls)
			time.Sleep(5 * time.Second)
			assert.LessOrEqual(t, most(time.Second, all...), 50)
		})
	}
}

func TestManyThatAskTogetherForAHash(t *testing.T) {
	for _, test := range []struct {
		sessions int
		trip     time.Duration
		longest  time.Duration
		calls    int
	}{
		{8, 400 * ms, 3 * time.Second, 45},
		{40, 5 * ms, 500 * ms, 300},
	} {
		onStage(t, func(f *stage) {
			f.distant(test.trip)
			var all []*finder
			for range test.sessions {
				d := f.finder()
				defer d.session.Close()
				d.ask()
				all = append(all, d)
			}
			f.until(test.trip+10*ms, func() bool {
				for _, d := range all {
					if d.may() {
						go func() {
							time.Sleep(200 * ms)
							d.found("abcd1234")
						}()
						return true
					}
				}
				return false
			})
			f.until(test.longest, func() bool {
				return !slices.ContainsFunc(all, func(d *finder) bool { return d.Hash() == "" })
			})
			assert.LessOrEqual(t, f.memory.Calls()["discover"], test.calls)
		})
	}
}

func TestManyThatCountInvalidResponsesTogether(t *testing.T) {
	onStage(t, func(f *stage) {
		f.distant(5 * ms)
		const sessions, seconds = 20, 10
		all := make([]interface {
			Invalid() int
			Others() int
		}, 0, sessions)
		for range sessions {
			s := f.join()
			defer s.Close()
			all = append(all, s)
		}
		for range seconds {
			for _, s := range all {
				s.Invalid()
				s.Others()
			}
			time.Sleep(time.Second)
		}
		assert.LessOrEqual(t, f.memory.Calls()["invalid"], 4*sessions*seconds)
		time.Sleep(12 * time.Second)
		for _, s := range all {
			assert.Equal(t, (sessions-1)*seconds, s.Others())
		}
	})
}
