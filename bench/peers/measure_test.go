package main

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// scripted returns a contender that makes all calls with the given function.
func scripted(with caller) contender {
	return contender{name: "scripted", open: func(http.RoundTripper, scenario) caller { return with }}
}

// small is a scenario of four messages.
func small(ends ...end) scenario {
	s := scenario{name: "small", calls: repeated(1, 4, send), limits: usual}
	for i, e := range ends {
		s.calls[i].end = e
	}
	return s
}

// measured runs the scenario in virtual time.
func measured(t *testing.T, s scenario, with caller) (r result) {
	synctest.Test(t, func(t *testing.T) {
		var err error
		r, err = measure(t.Context(), scripted(with), s, 0, 0)
		require.NoError(t, err)
	})
	return r
}

func TestCallsThatFailOrPanicAreCounted(t *testing.T) {
	t.Parallel()
	r := measured(t, small(), func(_ context.Context, c call) error {
		switch c.n {
		case 0:
			panic("at the disco")
		case 1:
			time.Sleep(time.Second)
			return errors.New("later")
		}
		time.Sleep(3 * time.Second)
		return nil
	})
	assert.Equal(t, 4, r.Calls)
	assert.Equal(t, 2, r.OK)
	assert.Equal(t, 2, r.Failed)
	assert.Equal(t, "panic: at the disco", r.Error)
	assert.Zero(t, r.NeverEnded)
	assert.Equal(t, 3*time.Second, r.Took)
	assert.Zero(t, r.efficiency())
}

func TestWhatNeverEndsEndsTheRunAllTheSame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := small()
		ideal, err := s.ideal()
		require.NoError(t, err)
		forever := make(chan struct{}) // this caller ignores contexts
		stuck := scripted(func(_ context.Context, c call) error {
			if c.n == 2 {
				<-forever
			}
			return nil
		})
		start := time.Now()
		r, err := measure(t.Context(), stuck, s, 0, 0)
		require.NoError(t, err)
		assert.Equal(t, longest(ideal)+grace, time.Since(start))
		assert.Equal(t, 1, r.NeverEnded)
		assert.Equal(t, 3, r.OK)
		assert.Zero(t, r.Failed)
		close(forever)
		synctest.Wait()
		assert.Equal(t, 3, r.OK, "a call that ends later does not count")
	})
}

func TestAnEndOfTheRunIsNoFailureOfTheCalls(t *testing.T) {
	t.Parallel()
	r := measured(t, small(), func(ctx context.Context, c call) error {
		<-ctx.Done() // only the end of the run ends the context
		return ctx.Err()
	})
	assert.Equal(t, 4, r.NeverEnded)
	assert.Zero(t, r.Failed)
}

func TestCallsAreGivenUpByDeadlineOrCancellation(t *testing.T) {
	t.Parallel()
	r := measured(t, small(deadline, cancelled), func(ctx context.Context, c call) error {
		_, known := ctx.Deadline()
		assert.Equal(t, c.n == 0, known)
		switch c.n {
		case 0:
			<-ctx.Done()
		case 1:
			<-ctx.Done()
			assert.ErrorIs(t, ctx.Err(), context.Canceled)
			time.Sleep(2 * time.Second)
		}
		return ctx.Err()
	})
	assert.Equal(t, 2, r.GivenUp)
	assert.Equal(t, 2, r.OK)
	assert.Zero(t, r.Failed, "given-up calls are not failures")
	assert.Zero(t, r.NeverEnded)
	assert.Equal(t, 2*time.Second, r.Late)
}

func TestScenariosMakeSense(t *testing.T) {
	t.Parallel()
	for _, quick := range []bool{false, true} {
		var sum time.Duration
		for _, s := range scenarios(quick) {
			ideal, err := s.ideal()
			require.NoError(t, err)
			assert.Positive(t, ideal)
			sum += ideal
			_, err = discordsim.NewWorld(time.Now(), s.config(0, 0))
			assert.NoError(t, err)
			for i := range s.calls[1:] {
				assert.LessOrEqual(t, s.calls[i].at, s.calls[i+1].at, "in the order of time")
			}
			assert.Equal(t, s.name == "given-up", newResult(contender{}, s, ideal).GivenUp > 0)
		}
		assert.Less(t, sum, 90*time.Second)
	}
}

// Two routes that share a limit must take as long as one route with the calls of both.
func TestTheIdealKnowsWhatIsShared(t *testing.T) {
	t.Parallel()
	apart := scenario{calls: repeated(1, 10, send, edit), limits: usual}
	together := scenario{calls: apart.calls, limits: usual, oneLimit: true}
	long, err := together.ideal()
	require.NoError(t, err)
	short, err := apart.ideal()
	require.NoError(t, err)
	assert.Equal(t, 3*(time.Second+travel.Smallest())+travel.Smallest(), long)
	assert.Equal(t, (time.Second+travel.Smallest())+travel.Smallest(), short)
}
