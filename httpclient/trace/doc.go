// Package trace records which requests a program makes, and when, so that they can be replayed: `go run ./bench tune
// -trace` compares max rate limits for exactly this traffic.
//
//	file, err := os.Create("trace.csv")
//	...
//	recorder := trace.New(file)
//	transport.AddHooks(recorder.Hooks())
//	...
//	err = errors.Join(transport.Close(), recorder.Close(), file.Close())
//
// Each request is one line of CSV: the time at which the transport got it, its method and its path. Attempts are not
// recorded, but refused requests are: a replay determines their outcome itself. The path has no id and no token of
// Discord's. A hash with a random key, which is not stored, replaces the ids of channels, guilds and webhooks by
// numbers. Within a recording an id always has the same number, and nothing else can be inferred from the number. All
// other parameters are placeholders. Lines are about 80 bytes long.
//
// No request ever waits for the recorder. If the writer is too slow, requests are not recorded, and LeftOut counts
// them.
package trace
