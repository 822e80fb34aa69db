package tune

import "time"

// Bottleneck is the limit that refuses most requests.
type Bottleneck struct {
	// Name is the route and the channel, guild or webhook that it is about, without any token. Empty: the global limit.
	Name string
	// Refused is how many requests had to be refused because of it.
	Refused int
	// Asked is how many requests per second there were for it, on the average of the whole load; 0 if the load takes no time.
	Asked float64
	// Limit requests per Period are what it allows. 0 if the client never learnt it.
	Limit  int
	Period time.Duration
	// Lasting: more is asked for than it allows, not only for a while.
	Lasting bool
	// Longest is the longest wait that was predicted.
	Longest time.Duration
}

// lastingPeriods is how many periods a load has to take before its average says something.
const lastingPeriods = 10

func findBottleneck(config Config, r Result) *Bottleneck {
	load := config.Load
	global := Bottleneck{Limit: config.Discord.GlobalLimit, Period: time.Second}
	for _, q := range r.refusals {
		global.Refused += q.global
		if q.global > 0 {
			global.Longest = max(global.Longest, q.longest)
		}
	}
	requests := load.Requests()
	worst := global
	for i, q := range r.refusals {
		if q.bucket > worst.Refused {
			worst = Bottleneck{Name: load.queues[i].name, Refused: q.bucket, Limit: q.limit, Period: q.period, Longest: q.longest}
			requests = load.queues[i].requests
		}
	}
	if load.Length > 0 {
		worst.Asked = float64(requests) / load.Length.Seconds()
	}
	if worst.Limit > 0 && load.Length >= lastingPeriods*worst.Period {
		windows := float64(load.Length)/float64(worst.Period) + 1
		worst.Lasting = float64(requests) > float64(worst.Limit)*windows
	}
	return &worst
}
