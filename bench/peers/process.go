package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// apart measures in a process of its own: a library that crashes, hangs or eats memory takes only itself away. What happens to
// the process is in the result's note. It is killed when the limit is over.
func apart(ctx context.Context, program string, by contender, s scenario, o options, limit time.Duration) result {
	ideal, _ := s.ideal() // whoever comes here has computed it before
	r := newResult(by, s, ideal)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	process := exec.CommandContext(limited, program, "-here", "-json", "-scenario", s.name, "-contender", by.name,
		fmt.Sprintf("-quick=%t", o.quick), fmt.Sprintf("-seed=%d", o.seed))
	var out, complaints bytes.Buffer
	process.Stdout, process.Stderr = &out, &complaints
	process.WaitDelay = time.Second
	err := process.Run()

	var d document
	told := json.Unmarshal(out.Bytes(), &d) == nil && len(d.Scenarios) == 1 && len(d.Scenarios[0].Results) == 1
	if told {
		r = d.Scenarios[0].Results[0]
	}
	switch {
	case ctx.Err() != nil:
		r.Note = "interrupted"
	case limited.Err() != nil:
		r.Note = fmt.Sprintf("killed after %v", limit.Round(time.Second))
	case err != nil:
		r.Note = strings.TrimSuffix(fmt.Sprintf("crashed: %v: %s", err, firstLine(complaints.String())), ": ")
	case !told:
		r.Note = "ended without a result"
	}
	return r
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
