package shared_test

import (
	"context"
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
	atOnce(t, func(w *world) {
		a, b := w.process().session, w.process().session
		b.Others()
		time.Sleep(30 * time.Second)
		count(a, 3)
		time.Sleep(31 * time.Second)
		assert.Equal(t, 3, b.Others(), "a process loads the count every minute even if there is none")
		count(b, 5)
		time.Sleep(2 * time.Second)
		count(a, 1)
		time.Sleep(2 * time.Second)
		a.Others()
		b.Others()
		time.Sleep(11 * time.Second)
		assert.Equal(t, 5, a.Others())
		assert.Equal(t, 4, b.Others())
		c := w.process().session
		c.Others()
		time.Sleep(ms)
		assert.Equal(t, 9, c.Others(), "a new session must know the count at once")
	})
}

func TestInvalidResponsesAreForgottenAfterTenMinutes(t *testing.T) {
	atOnce(t, func(w *world) {
		a, b := w.process().session, w.process().session
		time.Sleep(8 * time.Second) // so that the responses are counted at the end of a slot
		count(a, 3)
		time.Sleep(5 * time.Minute)
		count(a, 4)
		others := func() int {
			b.Others()
			time.Sleep(10100 * ms)
			return b.Others()
		}
		time.Sleep(4*time.Minute + 34*time.Second)
		assert.Equal(t, 7, others())
		time.Sleep(2 * time.Second)
		assert.Equal(t, 7, others(), "the responses are less than ten minutes old")
		time.Sleep(30 * time.Second)
		assert.Equal(t, 4, others())
		time.Sleep(5 * time.Minute)
		assert.Zero(t, others())
		time.Sleep(15 * time.Minute)
		assert.Empty(t, w.server.Keys())
	})
}

func TestInvalidResponsesAreCountedOnceAlthoughCallsAreLost(t *testing.T) {
	for name, fate := range map[string]memoryengine.Fate{
		"call": {Lost: true}, "reply": {LostReply: true}, "late": {Before: 3 * time.Second},
	} {
		eachAtOnce(t, name, func(t *testing.T, w *world) {
			a, b := w.process().session, w.process().session
			n := 0
			w.server.Decide(func(string) memoryengine.Fate {
				if n++; n%2 == 1 {
					return fate
				}
				return memoryengine.Fate{}
			})
			for range 10 {
				count(a, 7)
				time.Sleep(700 * ms)
			}
			time.Sleep(5 * time.Second)
			w.server.Decide(nil)
			b.Others()
			time.Sleep(time.Second)
			assert.Equal(t, 70, b.Others())
		})
	}
}

func TestInvalidResponsesAreReportedAgainAfterALoss(t *testing.T) {
	atOnce(t, func(w *world) {
		a, b := w.process().session, w.process().session
		count(a, 7)
		time.Sleep(2 * time.Second)
		w.server.Flush()
		a.Others()
		time.Sleep(11 * time.Second)
		b.Others()
		time.Sleep(time.Second)
		assert.Equal(t, 7, b.Others())
	})
}

func TestInvalidResponsesCountTogetherByAddressIfOneIsGiven(t *testing.T) {
	atOnce(t, func(w *world) {
		join := func(application, address string) shared.Session {
			options := []shared.Option{shared.WithApplication(application)}
			if address != "" {
				options = append(options, shared.WithAddress(address))
			}
			return w.process(options...).session
		}
		const here, there = "203.0.113.7", "203.0.113.8"
		for counted, want := range map[[2]string]map[[2]string]int{
			{"one", here}: {{"one", here}: 7, {"other", here}: 7, {"one", there}: 0, {"one", ""}: 0},
			{"two", ""}:   {{"two", ""}: 7, {"other", ""}: 0, {"two", here}: 0, {"default", ""}: 0},
		} {
			a := join(counted[0], counted[1])
			count(a, 7)
			a.Close() // reports the count
			for by, n := range want {
				b := join(by[0], by[1])
				b.Others()
				time.Sleep(time.Second)
				assert.Equal(t, n, b.Others(), "counted by %v, read by %v", counted, by)
				b.Close()
			}
			w.server.Flush()
		}
	})
}

func TestInvalidResponsesCostFewCalls(t *testing.T) {
	atOnce(t, func(w *world) {
		a := w.process().session
		for range 6000 {
			a.Others()
			time.Sleep(100 * ms)
		}
		assert.LessOrEqual(t, w.server.Calls()["invalid"], 11, "few calls while no response is counted")
		before := w.server.Calls()["invalid"]
		for range 600 {
			a.Invalid()
			time.Sleep(100 * ms)
		}
		assert.LessOrEqual(t, w.server.Calls()["invalid"]-before, 62)
		time.Sleep(2 * time.Minute)
		before = w.server.Calls()["invalid"]
		time.Sleep(time.Hour)
		assert.Equal(t, before, w.server.Calls()["invalid"], "no calls while no manager reads the count")
	})
}

func TestFirstInvalidResponseLoadsTheCountAtOnce(t *testing.T) {
	atOnce(t, func(w *world) {
		a, b := w.process().session, w.process().session
		a.Others()
		time.Sleep(10 * time.Second)
		count(b, 500)
		time.Sleep(2 * time.Second)
		require.Zero(t, a.Others(), "session a has counted nothing")
		a.Invalid()
		time.Sleep(ms)
		assert.Equal(t, 500, a.Others())
		count(b, 100)
		time.Sleep(11 * time.Second)
		assert.Equal(t, 600, a.Others())
	})
}

func TestManyProcessesCountInvalidResponses(t *testing.T) {
	atOnce(t, func(w *world) {
		w.distant(5 * ms)
		const sessions, seconds = 20, 10
		all := make([]interface {
			Invalid() int
			Others() int
		}, 0, sessions)
		for range sessions {
			all = append(all, w.process().session)
		}
		for range seconds {
			for _, s := range all {
				s.Invalid()
				s.Others()
			}
			time.Sleep(time.Second)
		}
		assert.LessOrEqual(t, w.server.Calls()["invalid"], 4*sessions*seconds)
		time.Sleep(12 * time.Second)
		for _, s := range all {
			assert.Equal(t, (sessions-1)*seconds, s.Others())
		}
	})
}

// half is a cluster in which one node is down. That node has the key that belongs to the address of WithAddress. This
// key is in another slot than the keys of the application.
type half struct{ server }

func (h half) Exchange(ctx context.Context, call *shared.Call) (*shared.Reply, error) {
	if call.Purpose == "invalid" {
		return nil, memoryengine.ErrDown
	}
	return h.server.Exchange(ctx, call)
}

// Requests must be sent in a bucket even while invalid responses cannot be counted together.
func TestBucketsDoNotDependOnTheSlotOfTheAddress(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.join(half{w.server}, realClock, shared.WithOutage(shared.OutageFail), shared.WithAddress("203.0.113.7"))
		p.session.Invalid()
		pass(10 * time.Second)
		u := p.use(someKey)
		u.join(1)
		pass(10 * ms)
		assert.Empty(t, u.errs)
		assert.True(t, u.lent)
	})
}

// skewed is a cluster in which the node with the key of the address has another clock. It counts the calls that are
// late, and the calls to that node with a NotAfter, which must be 0 in all of them.
type skewed struct {
	server
	late *int
}

func (s skewed) Exchange(ctx context.Context, call *shared.Call) (*shared.Reply, error) {
	invalid := call.Purpose == "invalid"
	if invalid && call.NotAfter != 0 {
		*s.late++
	}
	reply, err := s.server.Exchange(ctx, call)
	switch {
	case err == nil && reply.Late:
		*s.late++
	case err == nil && invalid:
		reply.Time -= time.Minute
	}
	return reply, err
}

// Whether a call to one node is late must not depend on the clock of another node.
func TestBucketsDoNotDependOnTheClockOfTheAddress(t *testing.T) {
	inWorld(t, func(w *world) {
		late := 0
		p := w.join(skewed{w.server, &late}, realClock, shared.WithAddress("203.0.113.7"))
		for range 5 {
			u := p.use(someKey)
			u.join(1)
			p.session.Invalid()
			pass(1500 * ms)
		}
		assert.Zero(t, late)
	})
}
