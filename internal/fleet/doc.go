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
// middle of whatever it does, see [Process.Kill], or lose its connection to the server of shared limits, see [Process.Cut].
package fleet
