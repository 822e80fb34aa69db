package report

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Progress shows how far the work has come: how much of it is done, how much in a second, how long it has taken and how long
// it will. Without a terminal it shows only what Begin says.
type Progress struct {
	bar   *progressbar.ProgressBar
	plain io.Writer
}

// NewProgress begins to show progress over so many requests.
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

// Begin says in a line what begins now, where there is no bar to look at.
func (p *Progress) Begin(what string) {
	fmt.Fprintln(p.plain, what) // whoever does not read it is no reason to stop
}

// Step says that one more request is done. It is safe for concurrent use.
func (p *Progress) Step() { p.Steps(1) }

// Steps says that so many more requests are done. It is safe for concurrent use.
func (p *Progress) Steps(n int) {
	_ = p.bar.Add(n) // a terminal that is gone is no reason to stop
}

// End takes the bar away, however far it has come.
func (p *Progress) End() {
	_ = p.bar.Clear()
	_ = p.bar.Exit()
}
