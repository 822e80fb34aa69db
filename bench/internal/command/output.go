package command

import (
	"errors"
	"fmt"

	"github.com/ratelight/ratelight/bench/internal/report"
)

// Output has the flag for how a command shows its result.
type Output struct {
	JSON bool `group:"Output and verdict" help:"Print JSON and nothing else to standard output."`
}

const aboutReport = "Write a page with a picture to this file, to open in a browser. The page needs no other files " +
	"and no network."

// Page has the flag for a page of charts.
type Page struct {
	Report string `group:"Output and verdict" placeholder:"FILE" help:"${about_report}"`
}

// Check returns an error if the page cannot be written. It is called before the run.
func (p *Page) Check() error {
	if p.Report == "" {
		return nil
	}
	if err := report.CheckFile(p.Report); err != nil {
		return fmt.Errorf("-report: expected a file that can be written: %w", err)
	}
	return nil
}

// Begin says on standard error what begins now. With -json it says nothing.
func (o *Output) Begin(p *Program, what string) {
	if !o.JSON {
		fmt.Fprintln(p.Stderr, what)
	}
}

// Show writes the page, if there is to be one, and then the report as text or JSON. The page comes first, because
// Ctrl-C may also end the program into which the report is piped, and then the report cannot be written. The error says
// which exit status to use.
func (o *Output) Show(p *Program, r *report.Report, page Page) error {
	var unwritten error
	if page.Report != "" {
		if err := r.WriteFile(page.Report); err != nil {
			unwritten = fmt.Errorf("-report: %w", err)
		} else {
			fmt.Fprintf(p.Stderr, "The report is in %s.\n", page.Report)
		}
	}
	write := r.WriteText
	if o.JSON {
		write = r.WriteJSON
	}
	if err := errors.Join(write(p.Stdout), unwritten); err != nil {
		return err
	}
	switch {
	case r.Verdict.Status == report.Interrupted:
		return StatusError(StatusInterrupted)
	case !r.Verdict.Good():
		return StatusError(StatusFailed)
	}
	return nil
}
