package httpclient

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ratelight/ratelight/buckets"
)

// memoryBudget bounds the memory, in bytes, of all request bodies that a transport keeps.
type memoryBudget struct {
	max  int64
	used atomic.Int64
}

// reservation is the part of the budget, in bytes, that one request has taken. It is not safe for concurrent use.
type reservation struct {
	of    *memoryBudget
	taken int64
}

// take takes up to most bytes, and returns how many it took.
func (r *reservation) take(most int64) int64 {
	for {
		used := r.of.used.Load()
		got := min(most, r.of.max-used)
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

// end returns all bytes to the budget.
func (r *reservation) end() { r.giveBack(r.taken) }

// endWith ends the reservation when the response is read or closed: until then the base transport keeps the request.
func (r *reservation) endWith(response *http.Response) {
	if r.taken == 0 || response.Body == http.NoBody || isSwitched(response) {
		return
	}
	own := *r
	r.taken = 0
	response.Body = &bodyWithEnd{response.Body, sync.OnceFunc(own.end)}
}

// bodyWithEnd is the body of a response. It calls end when it has been read or is closed.
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

// firstPiece is the memory, in bytes, that a body of unknown length gets at first. Most bodies are smaller.
const firstPiece = 4 << 10

// readWhile reads up to limit bytes of a body until one of the contexts ends. whole is false if the body is longer than
// limit or than the memory left. After an error the body is closed. The end of a context closes it, too, which ends a
// read from a pipe; a read that still blocks is abandoned. readWhile reserves memory as it reads, unless limit bytes
// are reserved already.
func (r *reservation) readWhile(
	life, ctx context.Context, body io.ReadCloser, limit int64,
) (kept []byte, whole bool, err error) {
	if inMemory(body) {
		return r.read(body, limit)
	}
	alive, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(life, end)()
	stop := context.AfterFunc(alive, func() { body.Close() })
	defer stop() // if a read panics

	own := *r // for the goroutine that reads
	r.taken = 0
	reading := start(func() (h head) {
		h.text, h.whole, h.err = own.read(body, limit)
		return h
	})
	why := func() error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return buckets.ErrClosed
	}
	if !reading.wait(alive) && !reading.waitBriefly() {
		reading.leave(func(head) { own.end() })
		return nil, false, why()
	}
	*r = own
	h := reading.get()
	if !stop() {
		return nil, false, why()
	}
	if h.err != nil {
		closeSoon(body)
	}
	return h.text, h.whole, h.err
}

// read is readWhile without contexts.
func (r *reservation) read(body io.Reader, limit int64) (kept []byte, whole bool, err error) {
	taken := r.taken > 0
	size := min(limit, DefaultMaxBufferedBody)
	if !taken {
		size = r.take(min(limit, firstPiece))
	}
	kept = make([]byte, 0, size+1) // one byte more shows whether the body is longer
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
