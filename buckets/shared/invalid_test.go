package shared_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/redistest"
)

func count(session buckets.SharedSession, n int) {
	for range n {
		session.Invalid()
	}
}

func TestInvalidResponsesAreCountedTogether(t *testing.T) {
	onStage(t, func(f *stage) {
		a, b := f.join(), f.join()
		defer a.Close()
		defer b.Close()
		count(a, 3)
		count(b, 5)
		time.Sleep(2 * time.Second)
		count(a, 1)
		time.Sleep(2 * time.Second)
		a.Others()
		b.Others()
		time.Sleep(11 * time.Second)
		assert.Equal(t, 5, a.Others())
		assert.Equal(t, 4, b.Others())
		c := f.join()
		defer c.Close()
		c.Others()
		time.Sleep(time.Millisecond)
		assert.Equal(t, 9, c.Others(), "who comes later knows at once")
	})
}

func TestInvalidResponsesAreForgottenAfterTenMinutes(t *testing.T) {
	onStage(t, func(f *stage) {
		a, b := f.join(), f.join()
		defer a.Close()
		defer b.Close()
		count(a, 3)
		time.Sleep(5 * time.Minute)
		count(a, 4)
		others := func() int {
			b.Others()
			time.Sleep(10100 * time.Millisecond)
			return b.Others()
		}
		time.Sleep(4*time.Minute + 30*time.Second)
		assert.Equal(t, 7, others())
		time.Sleep(30 * time.Second)
		assert.Equal(t, 4, others())
		time.Sleep(5 * time.Minute)
		assert.Zero(t, others())
		time.Sleep(15 * time.Minute)
		assert.Empty(t, f.memory.Redis.Keys())
	})
}

func TestInvalidResponsesAreCountedOnceWhateverIsLost(t *testing.T) {
	for name, fate := range map[string]redistest.Fate{
		"call": {Lost: true}, "reply": {LostReply: true}, "late": {Before: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(f *stage) {
				a, b := f.join(), f.join()
				defer a.Close()
				defer b.Close()
				n := 0
				f.memory.Decide(func(string) redistest.Fate {
					if n++; n%2 == 1 {
						return fate
					}
					return redistest.Fate{}
				})
				for range 10 {
					count(a, 7)
					time.Sleep(700 * time.Millisecond)
				}
				time.Sleep(5 * time.Second)
				f.memory.Decide(nil)
				b.Others()
				time.Sleep(time.Second)
				assert.Equal(t, 70, b.Others())
			})
		})
	}
}

func TestServerThatForgotInvalidResponsesIsToldAgain(t *testing.T) {
	onStage(t, func(f *stage) {
		a, b := f.join(), f.join()
		defer a.Close()
		defer b.Close()
		count(a, 7)
		time.Sleep(2 * time.Second)
		f.memory.Flush()
		a.Others()
		time.Sleep(11 * time.Second)
		b.Others()
		time.Sleep(time.Second)
		assert.Equal(t, 7, b.Others())
	})
}

func TestInvalidResponsesOfOtherAddressesDoNotCount(t *testing.T) {
	onStage(t, func(f *stage) {
		elsewhere, err := shared.New(f.memory, shared.WithAddress("203.0.113.7"), shared.WithApplication("other"))
		require.NoError(t, err)
		other, err := shared.New(f.memory, shared.WithApplication("other"))
		require.NoError(t, err)
		a, b, c := f.join(), elsewhere.Join(realClock, f.origin), other.Join(realClock, f.origin)
		defer b.Close()
		defer c.Close()
		count(a, 7)
		a.Close()
		b.Others()
		c.Others()
		time.Sleep(time.Second)
		assert.Zero(t, b.Others())
		assert.Equal(t, 7, c.Others(), "another application, but the same address, and it was told at the end")
	})
}

func TestInvalidResponsesCostFewCalls(t *testing.T) {
	onStage(t, func(f *stage) {
		a := f.join()
		defer a.Close()
		for range 6000 {
			a.Others()
			time.Sleep(100 * time.Millisecond)
		}
		assert.LessOrEqual(t, f.memory.Calls()["invalid"], 11, "nothing was counted")
		before := f.memory.Calls()["invalid"]
		for range 600 {
			a.Invalid()
			time.Sleep(100 * time.Millisecond)
		}
		assert.LessOrEqual(t, f.memory.Calls()["invalid"]-before, 62)
		time.Sleep(2 * time.Minute)
		before = f.memory.Calls()["invalid"]
		time.Sleep(time.Hour)
		assert.Equal(t, before, f.memory.Calls()["invalid"], "nobody wants to know")
	})
}

func TestFirstInvalidResponseAsksAtOnceForThoseOfOthers(t *testing.T) {
	onStage(t, func(f *stage) {
		a, b := f.join(), f.join()
		defer a.Close()
		defer b.Close()
		a.Others()
		time.Sleep(10 * time.Second)
		count(b, 500)
		time.Sleep(2 * time.Second)
		require.Zero(t, a.Others(), "it has had nothing to do with it")
		a.Invalid()
		time.Sleep(time.Millisecond)
		assert.Equal(t, 500, a.Others())
		count(b, 100)
		time.Sleep(11 * time.Second)
		assert.Equal(t, 600, a.Others())
	})
}
