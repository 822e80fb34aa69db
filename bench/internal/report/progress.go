package report

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Progress shows the requests done, their rate, the time taken and the time left. Without a terminal it shows only the
// lines of Begin.
type Progress struct {
	bar   *progressbar.ProgressBar
	plain io.Writer
}

// NewProgress starts to show progress over the given number of requests.
func NewProgress(w io.Writer, requests int) *Progress {
	p, screen := &Progress{plain: w}, io.Discard
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		p.plain, screen = io.Discard, w
	}
	p.bar = progressbar.NewOptions(requests,
		progressbar.OptionSetWriter(screen), progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("requests"),
		progressbar.OptionSetPredictTime(true), progressbar.OptionSetWidth(40), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetRenderBlankState(true), progressbar.OptionClearOnFinish())
	return p
}

// Begin writes a line that says what begins now, if there is no terminal for a bar.
func (p *Progress) Begin(what string) {
	fmt.Fprintln(p.plain, what) // a failed write is no reason to stop
}

// Step records that one more request is done. It is safe for concurrent use.
func (p *Progress) Step() { p.Steps(1) }

// Steps records that n more requests are done. It is safe for concurrent use.
func (p *Progress) Steps(n int) {
	_ = p.bar.Add(n) // a terminal that is gone is no reason to stop
}

// End removes the bar, even if requests are missing.
func (p *Progress) End() {
	_ = p.bar.Clear()
	_ = p.bar.Exit()
}
