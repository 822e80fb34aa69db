package report

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// Progress shows on a terminal how many requests are done. It is safe for concurrent use.
type Progress struct {
	w        io.Writer
	requests int
	begun    time.Time

	// mu guards all fields below.
	mu    sync.Mutex
	done  int
	shown time.Time
}

// NewProgress starts to show progress over the number of requests. If w is no terminal, it shows nothing.
func NewProgress(w io.Writer, requests int) *Progress {
	if file, ok := w.(*os.File); !ok || !term.IsTerminal(int(file.Fd())) {
		w = io.Discard
	}
	return &Progress{w: w, requests: requests, begun: time.Now()}
}

// Step records that one more request is done.
func (p *Progress) Step() { p.Steps(1) }

// Steps records that n more requests are done.
func (p *Progress) Steps(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done += n; time.Since(p.shown) > 200*time.Millisecond {
		p.shown = time.Now()
		fmt.Fprintf(p.w, "\r%d of %d requests, %s ", p.done, p.requests, time.Since(p.begun).Round(time.Second))
	}
}

// End removes the line.
func (p *Progress) End() {
	fmt.Fprint(p.w, "\r\033[K")
}
