package httpclient

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelight/ratelight/buckets"
)

// memoryBudget bounds the memory, in bytes, of all request bodies that a transport keeps in memory.
type memoryBudget struct {
	max  int64
	used atomic.Int64
}

// reservation is the part of the memoryBudget that one request has taken. It is not safe for concurrent use.
type reservation struct {
	of    *memoryBudget
	taken int64
}

// take takes n bytes of the budget, or the remaining bytes if fewer than n remain. It returns how many bytes it took.
func (r *reservation) take(n int64) int64 {
	for {
		used := r.of.used.Load()
		got := min(n, r.of.max-used)
		if got <= 0 {
			return 0
		}
		if r.of.used.CompareAndSwap(used, used+got) {
			r.taken += got
			return got
		}
	}
}

// takeAll takes n bytes or none, and reports whether it took them.
func (r *reservation) takeAll(n int64) bool {
	got := r.take(n)
	if got == n {
		return true
	}
	r.giveBack(got)
	return false
}

func (r *reservation) giveBack(n int64) {
	if n > 0 {
		r.taken -= n
		r.of.used.Add(-n)
	}
}

// end gives all bytes back to the budget.
func (r *reservation) end() { r.giveBack(r.taken) }

// endWith ends the reservation when the response's body has been read to its end or closed. Until then the base
// transport keeps the request, and thus the request's body, in memory.
func (r *reservation) endWith(response *http.Response) {
	if r.taken == 0 || response.Body == http.NoBody || isSwitched(response) {
		return
	}
	own := *r
	r.taken = 0
	response.Body = &bodyWithEnd{response.Body, sync.OnceFunc(own.end)}
}

// bodyWithEnd is the body of a response. It calls end when a read returns an error, such as io.EOF, and when it is
// closed.
type bodyWithEnd struct {
	io.ReadCloser
	end func() // may be called more than once
}

func (b *bodyWithEnd) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end()
	}
	return n, err
}

func (b *bodyWithEnd) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// firstPiece is how many bytes of memory are first reserved for a body of unknown length. Most bodies are smaller.
const firstPiece = 4 << 10

// readWhile reads up to limit bytes of a body, and one more byte that shows whether the body is longer. whole is false
// if the body is longer than limit, or if it needs more memory than the budget has. readWhile reserves memory as it
// reads, unless limit bytes are reserved already.
//
// readWhile fails if a read fails, the request's context ends, the transport is closed, the credential starts to rest,
// or no byte arrives for the attempt timeout. When readWhile fails, it closes a body that is not in memory. Closing the
// body ends, for example, a read from a pipe. If the read blocks even then, readWhile does not wait for it.
func (x *roundTrip) readWhile(body io.ReadCloser, limit int64) (kept []byte, whole bool, err error) {
	r := &x.body.reservation
	if inMemory(body) {
		return r.read(body, limit)
	}
	defer measure(&x.times.waited)()
	ctx := x.credential.untilStopped(x.request.Context())
	defer x.credential.endWait()
	alive, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(x.life, func() { end(buckets.ErrClosed) })()
	stop := context.AfterFunc(alive, func() { body.Close() })
	defer stop() // for the case that a read panics
	source := io.Reader(body)
	if after := x.attempts.Timeout; after > 0 {
		timer := time.AfterFunc(after, func() { end(x.timeoutError()) })
		defer timer.Stop()
		source = &timedSource{body, timer, after}
	}

	own := *r // the copy is for the goroutine that reads
	r.taken = 0
	reading := start(func() (h head) {
		h.text, h.whole, h.err = own.read(source, limit)
		return h
	})
	if !reading.wait(alive) && !reading.waitBriefly() {
		reading.leave(func(head) { own.end() })
		return nil, false, context.Cause(alive)
	}
	*r = own
	h := reading.get()
	if !stop() {
		return nil, false, context.Cause(alive)
	}
	if h.err != nil {
		closeSoon(body)
	}
	return h.text, h.whole, h.err
}

// timedSource resets the timer of the attempt timeout whenever it has read bytes.
type timedSource struct {
	io.Reader
	timer *time.Timer
	after time.Duration
}

func (s *timedSource) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if n > 0 {
		s.timer.Reset(s.after)
	}
	return n, err
}

// read does the same as readWhile, but waits for a read that blocks, and does not close the body.
func (r *reservation) read(body io.Reader, limit int64) (kept []byte, whole bool, err error) {
	taken := r.taken > 0
	size := min(limit, DefaultMaxBufferedBody)
	if !taken {
		size = r.take(min(limit, firstPiece))
	}
	kept = make([]byte, 0, size+1) // one more byte shows whether the body is longer
	for {
		n, err := body.Read(kept[len(kept):cap(kept)])
		kept = kept[:len(kept)+n]
		if int64(len(kept)) > size {
			more := min(max(size, firstPiece), limit-size)
			if !taken {
				more = r.take(more)
			}
			if more == 0 {
				if err == io.EOF {
					err = nil
				}
				return kept, false, err
			}
			size += more
			kept = append(make([]byte, 0, size+1), kept...)
		}
		switch err {
		case nil:
		case io.EOF:
			if spare := size - int64(len(kept)); spare > 0 && !taken {
				r.giveBack(spare)
				kept = slices.Clone(kept)
			}
			return kept, true, nil
		default:
			return kept, false, err
		}
	}
}
