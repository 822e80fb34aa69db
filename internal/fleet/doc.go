// Package fleet simulates several processes that share limits. Each process is a transport with its own bucket manager
// and its own session at the engine, the server of shared limits. All processes send to one simulated Discord and call
// one engine in memory.
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
// Use the package in a bubble of testing/synctest: make everything in the bubble, and it runs in the bubble's time. A
// process can die at any point ([Process.Kill]), lose its connection to the engine ([Process.Cut]), or stand still
// together with its clock ([Process.Suspend]). [Fleet.Story] lists Discord's answers to requests with a certain path,
// and other events of the fleet.
//
// The tests of this package test everything that processes share. TestWorlds simulates what can happen to a fleet, and
// counts every avoidable 429. It also requires that requests which wait for a bucket are sent at 80 % of the bucket's
// rate or more. Each fault suspends this requirement while the fault lasts, and for another 4 s and one period of the
// bucket.
package fleet
