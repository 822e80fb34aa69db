package tune

import "time"

// Bottleneck is the limit that refuses most requests, or lets requests wait for most time in all if none is refused.
type Bottleneck struct {
	// Name is the route and the channel, guild or webhook that it is about, without any token. Empty: the global limit.
	Name string
	// Refused is how many requests had to be refused because of it.
	Refused int
	// Waited is for how long requests waited for it, all together, if none was refused.
	Waited time.Duration
	// Asked is how many requests per second there were for it, on the average of the whole load; 0 if the load takes no time.
	Asked float64
	// Limit requests per Period are what it allows. 0 if the client never learnt it.
	Limit  int
	Period time.Duration
	// Lasting: more is asked for than it allows, not only for a while.
	Lasting bool
	// Longest is the longest wait that was predicted, or the longest wait if no request was refused.
	Longest time.Duration
}

// lastingPeriods is how many periods a load has to take before its average says something.
const lastingPeriods = 10

func findBottleneck(config Config, r Result) *Bottleneck {
	if r.Refused == 0 {
		return findLongestWaits(config, r)
	}
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

// findLongestWaits returns the limit that lets requests wait for most time in all, nil if none waits.
func findLongestWaits(config Config, r Result) *Bottleneck {
	load := config.Load
	global := Bottleneck{Limit: config.Discord.GlobalLimit, Period: time.Second}
	for _, w := range r.waits {
		global.Waited += w.global
		global.Longest = max(global.Longest, w.longestGlobal)
	}
	requests, worst := load.Requests(), global
	for i, w := range r.waits {
		if w.bucket > worst.Waited {
			worst = Bottleneck{Name: load.queues[i].name, Waited: w.bucket, Longest: w.longestBucket}
			requests = load.queues[i].requests
		}
	}
	if worst.Waited == 0 {
		return nil
	}
	if load.Length > 0 {
		worst.Asked = float64(requests) / load.Length.Seconds()
	}
	return &worst
}
