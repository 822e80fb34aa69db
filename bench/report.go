package main

import (
	"fmt"
	"io"
	"time"

	"github.com/ratelight/ratelight/bench/internal/pages"
	"github.com/ratelight/ratelight/bench/internal/trace"
)

// checkReport complains before the run if the report could not be written after it. No path: there is to be none.
func checkReport(path string) error {
	if path == "" {
		return nil
	}
	if err := pages.CheckFile(path); err != nil {
		return fmt.Errorf("-report: expected a file that can be written: %w", err)
	}
	return nil
}

// newTrace records a run if there is to be a report of it.
func newTrace(path string) *trace.Trace {
	if path == "" {
		return nil
	}
	return &trace.Trace{}
}

// writeReport writes the report if one is wanted, and says where. The page is only made then. It comes before other output,
// which may end the program: Ctrl-C also ends whatever that is piped into.
func writeReport(path string, stderr io.Writer, page func() pages.Page) error {
	if path == "" {
		return nil
	}
	made := page()
	made.Made = time.Now()
	if err := made.WriteFile(path); err != nil {
		return fmt.Errorf("-report: %w", err)
	}
	fmt.Fprintf(stderr, "The report is in %s.\n", path)
	return nil
}
