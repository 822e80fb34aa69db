package soak

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// Write shows a result to people: what became of the requests, the checkpoints, and a verdict.
func (r Result) Write(w io.Writer) {
	fmt.Fprintf(w, "%d requests in %v, seed %d, the slowest had its outcome after %v\n\n",
		r.Started, r.Took.Round(time.Second), r.Config.Seed, r.Longest.Round(time.Millisecond))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, kind := range slices.Sorted(maps.Keys(r.Outcomes)) {
		fmt.Fprintf(table, "%d\t  %s\n", r.Outcomes[kind], kind)
	}
	fmt.Fprintf(table, "\n429s\tuser\tsub-limit\tshared\tglobal\tedge\t\n")
	for _, row := range []struct {
		name   string
		counts discordsim.ByClass
	}{
		{"storm", r.Storm.Refused}, {"avoidable", r.Storm.Avoidable}, {"excused", r.Storm.Excused},
		{"calm", r.Calm.Refused}, {"avoidable", r.Calm.Avoidable}, {"excused", r.Calm.Excused},
	} {
		c := row.counts
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t\n", row.name, c.User, c.SubLimit, c.Shared, c.Global, c.Edge)
	}
	fmt.Fprintf(table, "\nround\theap\tgoroutines\tbuckets\tat most\twaiting at most\troutes\tauthentications\t\n")
	for i, c := range r.Checkpoints {
		fmt.Fprintf(table, "%d\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t  %s\n",
			i, mega(c.Heap), c.Goroutines, c.Buckets, c.MostBuckets, c.MostWaiting, c.Routes, c.Authentications, c.Weather)
	}
	_ = table.Flush() // who cannot read it does not miss it
	r.summary(w)
}

func (r Result) summary(w io.Writer) {
	fmt.Fprintf(w, "\ninvalid responses  %d, at most %d within %v (%d are allowed)\n",
		r.Invalid, r.LargestInvalid, r.Config.budgetPeriod(), r.Config.budget())
	fmt.Fprintf(w, "tokens             %d revoked, %d replaced\n", r.Revoked, r.Replaced)
	fmt.Fprintf(w, "left in the end    %d buckets (%d held by an absurd answer), %d routes, %d authentications, %d requests\n",
		r.Left.Buckets, r.Held, r.Left.Routes, r.Left.Authentications, r.Left.Waiting+r.Left.InFlight)
	fmt.Fprintf(w, "goroutines         %d before, %d after\n", r.Goroutines[0], r.Goroutines[1])
	if middle, last, ok := r.heaps(); ok {
		fmt.Fprintf(w, "heap               %s in the second third, %s in the last\n", mega(middle), mega(last))
	}
	fmt.Fprintf(w, "searched           %d texts, %s: a token in %d of them\n\n", r.Searched, mega(r.SearchedBytes), len(r.Found))
	for _, broken := range r.Broken {
		fmt.Fprintf(w, "broken: %s\n", broken)
	}
	switch {
	case r.Interrupted:
		fmt.Fprintln(w, "INTERRUPTED")
	case len(r.Broken) > 0:
		fmt.Fprintf(w, "FAILED: %d promises were broken.\n", len(r.Broken))
	default:
		fmt.Fprintln(w, "OK: all promises were kept.")
	}
}

func mega(bytes uint64) string { return fmt.Sprintf("%.2f MB", float64(bytes)/(1<<20)) }
