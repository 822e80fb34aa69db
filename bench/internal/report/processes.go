package report

import (
	"github.com/ratelight/ratelight/bench/internal/processes"
	"github.com/ratelight/ratelight/bench/internal/trace"
)

func Processes(settings processes.Settings, results []processes.Result, logs []trace.Log) Page { return Page{} }
