// Package fleet simulates several processes that share limits. Each of them is a transport with its own manager and
// session. All send to one simulated Discord and call one engine in memory.
//
//	synctest.Test(t, func(t *testing.T) {
//		discord := discordsim.Config{Latency: discordsim.RoundTrip(50 * time.Millisecond)}
//		f, err := fleet.New(fleet.Config{Processes: 4, Discord: discord})
//		...
//		defer f.Close()
//		for _, p := range f.Processes {
//			f.Go(func() { p.Do(ctx, fleet.Message(1)) })
//		}
//		f.Wait(time.Minute)
//		f.Discord.Report() // all requests, as the server saw them
//	})
//
// It is for bubbles of testing/synctest: everything is made in the bubble and runs in its time. A process can die at
// any point ([Process.Kill]), lose its connection to the server of shared limits ([Process.Cut]), or stand still
// together with its clock ([Process.Suspend]). [Fleet.Story] lists Discord's answers to the requests for a path, and
// other events of the fleet.
//
// The tests of this package test everything that processes share. TestWorlds simulates what can happen to a fleet, and
// counts every avoidable 429. It also requires that buckets are served at 80 % of their rate at least while requests
// wait for them. This applies from the time when all faults have been over for 4 s and one period of the bucket.
package fleet
