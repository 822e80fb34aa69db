package output

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Progress shows how far the work has come. It shows nothing if it does not write to a terminal.
type Progress struct{ bar *progressbar.ProgressBar }

// NewProgress begins to show progress over so many requests.
func NewProgress(w io.Writer, requests int) *Progress {
	if !isTerminal(w) {
		return &Progress{}
	}
	return &Progress{newBar(w, requests)}
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

func newBar(w io.Writer, requests int) *progressbar.ProgressBar {
	return progressbar.NewOptions(requests,
		progressbar.OptionSetWriter(w),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetItsString("requests"),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionSetWidth(40),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetRenderBlankState(true),
		progressbar.OptionClearOnFinish(),
	)
}

// Step says that one more request is done. It is safe for concurrent use.
func (p *Progress) Step() {
	if p.bar != nil {
		_ = p.bar.Add(1) // a terminal that is gone is no reason to stop
	}
}

// End takes the bar away, however far it has come.
func (p *Progress) End() {
	if p.bar != nil {
		_ = p.bar.Clear()
		_ = p.bar.Exit()
	}
}
