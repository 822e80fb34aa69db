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
// Each request is one line of CSV: the time at which the transport got it, its method and its path. The line does not
// say how often the request was sent and how it ended. Refused requests are recorded, too, because a replay determines
// the outcome itself. The path has no id and no token of Discord's. Numbers replace the ids of channels, guilds and
// webhooks. These numbers are hashes with a random key, which is not stored. Within a recording an id always has the
// same number, and nothing else can be inferred from the number. All other parameters are placeholders. Lines are about
// 80 bytes long.
//
// No request ever waits for the recorder. If the writer is too slow, some requests are not recorded, and LeftOut counts
// them.
package trace
