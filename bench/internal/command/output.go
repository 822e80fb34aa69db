package command

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/ratelight/ratelight/bench/internal/report"
)

// Output has the flags for how a command shows its result.
type Output struct {
	JSON   bool   `group:"Output and verdict" help:"Print JSON and nothing else to standard output."`
	Report string `group:"Output and verdict" placeholder:"FILE" help:"Write a page of charts to this file, to open in a browser; it needs no other files and no network."`
}

// CheckReport returns an error before the run if the page could not be written after it.
func (o *Output) CheckReport() error {
	if o.Report == "" {
		return nil
	}
	if err := report.CheckFile(o.Report); err != nil {
		return fmt.Errorf("-report: expected a file that can be written: %w", err)
	}
	return nil
}

// CheckList returns an error if the name list is given together with other names or with a page.
func (o *Output) CheckList(names []string) error {
	switch {
	case !slices.Contains(names, "list"):
		return nil
	case len(names) > 1:
		return fmt.Errorf("%q are given: expected list alone, or scenarios to run", names)
	case o.Report != "":
		return errors.New("-report has no effect together with list: expected scenarios to run")
	}
	return nil
}

// Progress starts to show the progress of a run on standard error. With -json it shows nothing.
func (o *Output) Progress(p *Program, requests int) *report.Progress {
	if o.JSON {
		return report.NewProgress(io.Discard, requests)
	}
	return report.NewProgress(p.Stderr, requests)
}

// Show writes the page, if there is to be one, and then the report as text or JSON. The page comes first, because
// Ctrl-C may end the program that the report is piped into. The error says which exit status to use.
func (o *Output) Show(p *Program, r *report.Report) error {
	var unwritten error
	if o.Report != "" {
		if err := r.WriteFile(o.Report); err != nil {
			unwritten = fmt.Errorf("-report: %w", err)
		} else {
			fmt.Fprintf(p.Stderr, "The report is in %s.\n", o.Report)
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
