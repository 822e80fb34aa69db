package discordsim

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// Connection says what happens to the connection of a request.
type Connection int

const (
	// ConnectionKept leaves the connection as it is.
	ConnectionKept Connection = iota
	// ConnectionLostBefore: the connection breaks before the request is processed. No limit counts the request.
	ConnectionLostBefore
	// ConnectionLostAfter: the connection breaks after the request was processed and counted. Only the answer is missing.
	ConnectionLostAfter
)

// Stall says how much of an answer's body is sent.
type Stall int

const (
	// StallNone sends the whole body.
	StallNone Stall = iota
	// StallAtOnce sends the headers and nothing of the body. The answer does not end until the client gives up.
	StallAtOnce
	// StallHalfway sends the headers and half of the body. The answer does not end until the client gives up.
	StallHalfway
)

// Fault makes some requests fail, or changes the answers to them. It applies to a request if every condition that is
// set holds for the request. Without conditions, it applies to all requests.
type Fault struct {
	// If Also is set, later faults may apply to the same request as well. If two faults contradict each other, the earlier
	// one decides.
	Also bool

	Every       int             // applies to every n-th request
	Nth         []int           // applies to the requests with these numbers, which begin with 1
	Probability float64         // applies by chance; the seed of the Config decides
	When        func(Call) bool // any other condition
	From, Until time.Duration   // applies between these times since the world began; Until 0: without an end

	// Status replaces the status of the answer if the limits accept the request. If it is 500 or higher, the answer has no
	// limit headers.
	Status int
	// Body replaces the body of the answer if the limits accept the request.
	Body string
	// Uncounted says that the request takes no place in its bucket, and that the bucket does not refuse it.
	Uncounted bool

	// Handle may change the answer if the limits accept the request. It is called after the request was processed and
	// before the answer travels back. It is called without a lock, with the request's Value, and may take time. Limit
	// headers are already set.
	Handle func(value any, response *Response)
	// Refuse refuses the request and, until Refuse.Wait is over, all other requests to which a 429 of that class applies.
	Refuse *Refusal

	// Drop removes headers, and Set replaces them. Both also apply to 429s. The case of the names does not matter.
	Drop []string
	Set  map[string]string
	// State changes what the limit headers say: it gets the true state and returns the state to announce.
	State func(State) State
	// Edit may change anything in the complete answer.
	Edit func(Call, *Response)

	Connection Connection
	Delay      time.Duration // before the answer travels back, in addition to the latency
	BodyDelay  time.Duration // between the headers and the body
	Stall      Stall
}

// limitHeaders are all the headers that describe a bucket.
var limitHeaders = []string{headerLimit, headerRemaining, headerReset, headerResetAfter, headerBucket}

// NoHeaders drops every limit header.
func NoHeaders() Fault { return Fault{Drop: limitHeaders} }

// Garbage replaces the value of every numeric header that an answer has with a text such as "NaN", "", "-1" or "1e400".
func Garbage(text string) Fault {
	return Fault{Edit: func(_ Call, response *Response) {
		for _, name := range []string{headerLimit, headerRemaining, headerReset, headerResetAfter, headerRetryAfter} {
			if _, ok := response.Header[name]; ok {
				response.Header.Set(name, text)
			}
		}
	}}
}

// StaleFirst makes the first answer of each fixed window describe the previous window: nothing remains, and the reset
// is in 0 seconds. The other answers of the window show the true state. Other faults can also apply to the same
// request.
func StaleFirst() Fault {
	return Fault{Also: true, Edit: func(call Call, response *Response) {
		limit, _ := readNumber(response.Header.Get(headerLimit))
		remaining, ok := readNumber(response.Header.Get(headerRemaining))
		if !ok || remaining != limit-1 || response.Class != ClassNone {
			return
		}
		response.Header.Set(headerRemaining, "0")
		response.Header.Set(headerReset, seconds(RoundUp.milliseconds(time.Duration(call.Clock.UnixNano()))))
		response.Header.Set(headerResetAfter, "0.000")
	}}
}

// ResetAlone leaves Reset-After out, as old servers and compatible servers do. A client then has to compare Reset with
// Date. Other faults can also apply to the same request.
func ResetAlone() Fault { return Fault{Also: true, Drop: []string{headerResetAfter}} }

// WholeReset is like ResetAlone, but Reset has whole seconds. It is rounded up if raised is true. Otherwise it is
// rounded down, so that it names a time that is too early.
func WholeReset(raised bool) Fault {
	f := ResetAlone()
	f.Edit = func(_ Call, response *Response) {
		reset, ok := readNumber(response.Header.Get(headerReset))
		if !ok {
			return
		}
		if raised {
			reset = math.Ceil(reset)
		}
		response.Header.Set(headerReset, strconv.FormatInt(int64(reset), 10))
	}
	return f
}

// SetFaults replaces Config.Faults. It panics if one of the new faults is not valid.
func (w *World) SetFaults(faults []Fault) {
	for i := range faults {
		if err := faults[i].validate(); err != nil {
			panic(err)
		}
	}
	w.config.Faults = faults
}

// applies reports whether the fault applies to a request. It draws from rng only if all conditions except Probability
// hold.
func (f *Fault) applies(call Call, rng *rand.Rand) bool {
	switch {
	case call.Elapsed < f.From || f.Until > 0 && call.Elapsed >= f.Until,
		f.Every > 0 && call.N%f.Every != 0,
		len(f.Nth) > 0 && !slices.Contains(f.Nth, call.N),
		f.When != nil && !f.When(call),
		f.Probability > 0 && rng.Float64() >= f.Probability:
		return false
	}
	return true
}

// appliedFaults are the faults that apply to one request. If two contradict each other, the earlier one decides.
type appliedFaults []*Fault

// answer returns the status and the body of an accepted request; a zero value leaves the rule's value.
func (s appliedFaults) answer() (status int, body string) {
	for _, f := range s {
		status, body = cmp.Or(status, f.Status), cmp.Or(body, f.Body)
	}
	return status, body
}

func (s appliedFaults) handle() func(any, *Response) {
	for _, f := range s {
		if f.Handle != nil {
			return f.Handle
		}
	}
	return nil
}

func (s appliedFaults) uncounted() bool {
	return slices.ContainsFunc(s, func(f *Fault) bool { return f.Uncounted })
}

func (s appliedFaults) connection() (c Connection) {
	for _, f := range s {
		c = cmp.Or(c, f.Connection)
	}
	return c
}

// state returns the state that the limit headers announce, given the true state.
func (s appliedFaults) state(state State) State {
	for _, f := range slices.Backward(s) {
		if f.State != nil {
			state = f.State(state)
		}
	}
	return state
}

// spoil applies all faults to a complete answer.
func (s appliedFaults) spoil(call Call, response *Response) {
	for _, f := range slices.Backward(s) {
		f.spoil(call, response)
	}
	response.Connection = s.connection()
}

func (f *Fault) spoil(call Call, response *Response) {
	for _, name := range f.Drop {
		response.Header.Del(name)
	}
	for name, value := range f.Set {
		response.Header.Set(name, value)
	}
	if f.Edit != nil {
		f.Edit(call, response)
	}
	response.Stall = cmp.Or(f.Stall, response.Stall)
	response.Delay += f.Delay
	response.BodyDelay += f.BodyDelay
}

func (f *Fault) validate() error {
	switch {
	case f.Every < 0, f.Probability < 0 || f.Probability > 1,
		slices.ContainsFunc(f.Nth, func(n int) bool { return n < 1 }):
		return fmt.Errorf("%w: fault with an impossible condition", ErrConfig)
	case f.From < 0 || f.Until < 0 || f.Delay < 0 || f.BodyDelay < 0:
		return fmt.Errorf("%w: fault with a negative duration", ErrConfig)
	case f.Status != 0 && (f.Status < 200 || f.Status > 599):
		return fmt.Errorf("%w: fault with status %d", ErrConfig, f.Status)
	case f.Stall < StallNone || f.Stall > StallHalfway:
		return fmt.Errorf("%w: fault with an unknown stall", ErrConfig)
	case f.Connection < ConnectionKept || f.Connection > ConnectionLostAfter:
		return fmt.Errorf("%w: fault with an unknown connection state", ErrConfig)
	case f.Refuse != nil:
		return f.Refuse.validate()
	}
	return nil
}
