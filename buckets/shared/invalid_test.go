package shared_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/memoryengine"
)

func count(session shared.Session, n int) {
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
		assert.Empty(t, f.memory.Keys())
	})
}

func TestInvalidResponsesAreCountedOnceWhateverIsLost(t *testing.T) {
	for name, fate := range map[string]memoryengine.Fate{
		"call": {Lost: true}, "reply": {LostReply: true}, "late": {Before: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(f *stage) {
				a, b := f.join(), f.join()
				defer a.Close()
				defer b.Close()
				n := 0
				f.memory.Decide(func(string) memoryengine.Fate {
					if n++; n%2 == 1 {
						return fate
					}
					return memoryengine.Fate{}
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

func TestInvalidResponsesCountTogetherByAddressIfOneIsGiven(t *testing.T) {
	onStage(t, func(f *stage) {
		join := func(application, address string) shared.Session {
			options := []shared.Option{shared.WithApplication(application)}
			if address != "" {
				options = append(options, shared.WithAddress(address))
			}
			store, err := shared.New(f.memory, options...)
			require.NoError(t, err)
			return store.Join(realClock, f.origin)
		}
		const here, there = "203.0.113.7", "203.0.113.8"
		for counted, want := range map[[2]string]map[[2]string]int{
			{"one", here}: {{"one", here}: 7, {"other", here}: 7, {"one", there}: 0, {"one", ""}: 0},
			{"two", ""}:   {{"two", ""}: 7, {"other", ""}: 0, {"two", here}: 0, {"default", ""}: 0},
		} {
			a := join(counted[0], counted[1])
			count(a, 7)
			a.Close() // it is told at the end
			for who, n := range want {
				b := join(who[0], who[1])
				b.Others()
				time.Sleep(time.Second)
				assert.Equal(t, n, b.Others(), "counted by %v, asked by %v", counted, who)
				b.Close()
			}
			f.memory.Flush()
		}
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
