package options

import (
	"fmt"
	"strings"
)

const introduction = `Usage: go run ./bench [flags]
       go run ./bench tune [flags]    find the max rate limit to set; tune -h has its flags

Sends a burst of requests through Ratelight's transport to a simulated Discord on this machine, and measures how long
they wait, how many are refused, and how close the throughput is to that of an ideal client.
`

const conclusion = `
Examples:

  go run ./bench                                       the defaults: about 10 s
  go run ./bench -requests 50                          fewer requests
  go run ./bench -kind sliding -latency 100ms          another kind of bucket, longer round trips
  go run ./bench -buckets 1 -limit 50 -global-limit 0  one large bucket, no global limit
  go run ./bench -max-rate-limit 3s                    requests that would wait longer are refused
  go run ./bench -scenario all                         test the limiter in difficult situations
  go run ./bench tune                                  which max rate limit to set, for a day of requests
  go run ./bench -processes 4                          4 processes that share limits: about 2 min
  go run ./bench -processes 4 -disturb                 what failures cost them: about 75 s
  go run ./bench -soak 10m                             memory, goroutines, tokens: find leaks
  go run ./bench -report load.html                     charts of the run, to open in a browser
  go run ./bench -json -min-efficiency 0.95            for a script
  go run ./bench -target https://discord.com -requests 10
                                                       REAL requests: GET /api/v10/gateway

Exit status of the built program (go run itself exits with 1 for all but 0): 0 success, 1 requests or a verdict failed,
2 invalid flags, 130 interrupted.
`

// Help is what -h prints.
func Help() string {
	o := defaults()
	return introduction + describe(o.groups()) + conclusion
}

// describe lists flags with what they mean.
func describe(groups []group) string {
	var b strings.Builder
	for _, group := range groups {
		fmt.Fprintf(&b, "\n%s:\n\n", group.title)
		for _, f := range group.flags {
			usage := f.usage
			if f.value.initial != "" {
				usage += " (default " + f.value.initial + ")"
			}
			name := strings.TrimSpace("-" + f.name + " " + f.value.kind)
			for i, line := range wrap(usage, 90) {
				if i > 0 {
					name = ""
				}
				fmt.Fprintf(&b, "  %-26s%s\n", name, line)
			}
		}
	}
	return b.String()
}

// wrap breaks a text into lines of so many characters at most.
func wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}
