// Package fleet runs several processes that share limits in one: each is a transport with a manager and a session of its own, and all
// of them send to one simulated Discord and call one server in memory.
//
//	synctest.Test(t, func(t *testing.T) {
//		f, err := fleet.New(fleet.Config{Processes: 4, Discord: discordsim.Config{Latency: discordsim.RoundTrip(50 * time.Millisecond)}})
//		...
//		defer f.Close()
//		for _, p := range f.Processes {
//			f.Go(func() { p.Do(ctx, fleet.Message(1)) })
//		}
//		f.Wait(time.Minute)
//		f.Discord.Report() // what the server saw of them
//	})
//
// It is for bubbles of testing/synctest: everything is made in there, and runs in the time of the bubble. A process can die in the
// middle of whatever it does, see [Process.Kill], lose its connection to the server of shared limits, see [Process.Cut], or stand still
// with its clock, see [Process.Suspend]. [Fleet.Story] tells what became of the requests of a bucket, and what else happened meanwhile.
//
// The tests of this package are the judge of everything that processes share. TestWorlds plays what can happen to a fleet, and counts every
// 429 that could have been avoided. Nor may a bucket be served at less than 80 % of its rate once all trouble has been over for 4 s and one of its
// periods, as long as requests wait for it.
package fleet
