// Command peers sends the same work through discordgo, disgo and arikawa, each as it is and with Ratelight under it, against
// a simulated Discord, and prints what they meet: 429s, and the time that it takes beside the ideal.
//
//	cd bench/peers && go run .
//
// It takes about as long as the slowest of them for each workload, about a quarter of a minute in all.
package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

func main() {
	log.SetOutput(io.Discard) // discordgo reports its retries here
	if err := compare(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// compare runs one workload after the other, and all libraries at once.
func compare(out io.Writer) error {
	all := hooks()
	for _, w := range workloads() {
		results := make([]result, len(all))
		errs := make([]error, len(all))
		var running sync.WaitGroup
		for i, h := range all {
			running.Go(func() { results[i], errs[i] = measure(h, w, realTime) })
		}
		running.Wait()
		ideal, err := w.ideal()
		if err := errors.Join(append(errs, err)...); err != nil {
			return err
		}
		if err := table(out, w, all, results, ideal); err != nil {
			return err
		}
	}
	return nil
}

// table writes one workload's results.
func table(out io.Writer, w workload, hooks []hook, results []result, ideal time.Duration) error {
	fmt.Fprintf(out, "%s: %s; round trip %v, ideal %.2f s\n\n", w.name, w.about, w.roundTrip, ideal.Seconds())
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "library\thook\tcalls ok\t429s\tof them avoidable\tseconds\ttimes ideal")
	for i, h := range hooks {
		r := results[i]
		fmt.Fprintf(columns, "%s\t%s\t%d/%d\t%s\t%d\t%.2f\t%.2f\n", h.library, h.name, r.ok(), r.calls,
			classes(r), r.report.Avoidable.Total(), r.makespan.Seconds(), r.makespan.Seconds()/ideal.Seconds())
	}
	if err := columns.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out)
	return err
}

// classes are the 429s by their class, such as "3 user, 40 global".
func classes(r result) string {
	var parts []string
	for _, class := range []struct {
		name  string
		count int
	}{
		{"user", r.report.Refused.User}, {"sub-limit", r.report.Refused.SubLimit}, {"shared", r.report.Refused.Shared},
		{"global", r.report.Refused.Global}, {"edge", r.report.Refused.Edge},
	} {
		if class.count > 0 {
			parts = append(parts, fmt.Sprint(class.count, " ", class.name))
		}
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ", ")
}
