package load

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/ratelimits"
)

const anywhere = "http://discord.com/"

// roundTripper is a function as a round tripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// takes answers after some time.
func takes(d time.Duration) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		time.Sleep(d)
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
	})
}

// holds passes a request on once after each of the waits, and returns the last answer.
func holds(base http.RoundTripper, waits ...time.Duration) *http.Client {
	return &http.Client{Transport: roundTripper(func(r *http.Request) (response *http.Response, err error) {
		for _, wait := range waits {
			time.Sleep(wait)
			response, err = base.RoundTrip(r)
		}
		return response, err
	})}
}

func do(t *testing.T, m *Meter, client *http.Client) {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, anywhere, nil)
	require.NoError(t, err)
	require.NoError(t, through(m, client, request))
}

// through makes a request and has it measured.
func through(m *Meter, client *http.Client, request *http.Request) (err error) {
	m.Watch(request.Context(), func(ctx context.Context) {
		var response *http.Response
		if response, err = client.Do(request.WithContext(ctx)); err == nil {
			err = response.Body.Close()
		}
	})
	return err
}

func TestQueueingIsTheTimeBeforeTheRequestIsSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewMeter(nil)
		do(t, m, holds(m.Below(takes(70*ms)), 300*ms))
		got := m.Read()
		assert.InEpsilon(t, 300*ms, got.Queued.Median, 0.001, "the round trip is no part of it")
		assert.Equal(t, 1, got.LargestInFlight)
	})
}

func TestWhatIsNoClientCanBeWatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewMeter(nil)
		client := holds(m.Below(takes(70*ms)), 300*ms, 200*ms)
		m.Watch(t.Context(), func(ctx context.Context) {
			time.Sleep(100 * ms) // a library at its own work
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, anywhere, nil)
			require.NoError(t, err)
			response, err := client.Do(request)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
		})
		m.Watch(t.Context(), func(context.Context) {}) // nothing is sent
		got := m.Read()
		assert.InEpsilon(t, 600*ms, got.Queued.Median, 0.001)
		assert.InEpsilon(t, 600*ms, got.Queued.Max, 0.001)
	})
}

func TestQueueingOfARepeatedRequestIsTheSumOfItsWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewMeter(nil)
		do(t, m, holds(m.Below(takes(70*ms)), 300*ms, 1000*ms, 200*ms))
		got := m.Read()
		assert.InEpsilon(t, 1500*ms, got.Queued.Max, 0.001)
	})
}

func TestRequestThatIsNeverSentHasNoQueueing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewMeter(nil)
		refuse := &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			return nil, errors.New("no")
		})}
		request, err := http.NewRequest(http.MethodGet, anywhere, nil)
		require.NoError(t, err)
		err = through(m, refuse, request)
		require.Error(t, err)
		assert.Zero(t, m.Read())
	})
}

func TestQuantilesAreThoseOfTheWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewMeter(nil)
		var group sync.WaitGroup
		for i := range 1000 {
			group.Go(func() { do(t, m, holds(m.Below(takes(0)), time.Duration(i+1)*ms)) })
		}
		group.Wait()
		got := m.Read().Queued
		assert.InEpsilon(t, 500*ms, got.Median, 0.002)
		assert.InEpsilon(t, 900*ms, got.P90, 0.002)
		assert.InEpsilon(t, 990*ms, got.P99, 0.002)
		assert.Equal(t, 1000*ms, got.Max)
	})
}

func TestLargestInFlightIsTheMostAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewMeter(nil)
		var group sync.WaitGroup
		for i := range 10 {
			// Each is under way for 250 ms, one begins every 100 ms.
			group.Go(func() { do(t, m, holds(m.Below(takes(250*ms)), time.Duration(i)*100*ms)) })
		}
		group.Wait()
		assert.Equal(t, 3, m.Read().LargestInFlight)
	})
}

func TestEachWayThroughTheClientIsRecorded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := report.NewLog(true)
		log.Start(time.Now())
		m := NewMeter(log)
		do(t, m, holds(m.Below(refuses(takes(100*ms))), 300*ms))
		seen := func() []report.Passage { return log.Passages }
		require.Len(t, seen(), 1)
		assert.Equal(t, report.Passage{Done: 400 * ms, Sends: []report.Send{
			{At: 300 * ms, Back: 400 * ms, Status: http.StatusTooManyRequests, Class: ratelimits.ClassGlobal},
		}}, seen()[0])

		request, err := http.NewRequest(http.MethodGet, anywhere, nil)
		require.NoError(t, err)
		err = through(m, &http.Client{Transport: broken{}}, request)
		require.ErrorIs(t, err, assert.AnError)
		require.Len(t, seen(), 2)
		assert.Empty(t, seen()[1].Sends, "it was never sent")
		err = through(m, &http.Client{Transport: m.Below(broken{})}, request)
		require.ErrorIs(t, err, assert.AnError)
		assert.Equal(t, []report.Send{{At: 400 * ms, Back: 400 * ms}}, seen()[2].Sends)
		assert.Equal(t, 400*ms, log.Lasted)
	})
}

func TestRequestsThatAreGivenUpWereNotQueued(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewMeter(nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		client := holds(m.Below(takes(time.Minute)), 300*ms)
		m.Watch(ctx, func(ctx context.Context) {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, anywhere, nil)
			require.NoError(t, err)
			_, _ = client.Do(request)
		})
		assert.Zero(t, m.Read().Queued)
		assert.Equal(t, time.Minute, m.Read().SlowestRoundTrip)
	})
}

// broken sends nothing.
type broken struct{}

func (broken) RoundTrip(*http.Request) (*http.Response, error) { return nil, assert.AnError }

// refuses turns every response into a 429 of the global limit.
func refuses(base http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := base.RoundTrip(request)
		if err == nil {
			response.StatusCode = http.StatusTooManyRequests
			response.Header = http.Header{"X-Ratelimit-Scope": {"global"}}
		}
		return response, err
	})
}
