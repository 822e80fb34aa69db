// Package trace records which requests a program makes, and when, so that they can be replayed: `go run ./bench tune -trace` compares max
// rate limits for exactly this traffic.
//
//	file, err := os.Create("trace.csv")
//	...
//	recorder := trace.New(file)
//	transport.AddHooks(recorder.Hooks())
//	...
//	err = errors.Join(transport.Close(), recorder.Close(), file.Close())
//
// Each request is one line of CSV, with the time at which the transport got it, its method and its path. Attempts are not recorded, and
// refused requests are: a replay finds out by itself what becomes of them. The path has no id and no token of Discord's: channels, guilds
// and webhooks are numbers made by a hash with a random key that is nowhere written, so that the same one has the same number within a
// recording, and nothing else can be told of it. Other parameters are left out. So lines are about 80 bytes.
//
// No request ever waits for the recorder. If the writer is too slow, requests are left out, and counted.
package trace
