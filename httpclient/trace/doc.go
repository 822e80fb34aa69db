// Package trace records which requests a program makes and when, so that the requests can be replayed. The command `go
// run ./bench tune -trace` replays them to compare max rate limits.
//
//	file, err := os.Create("trace.csv")
//	...
//	recorder := trace.New(file)
//	transport.AddHooks(recorder.Hooks())
//	...
//	err = errors.Join(transport.Close(), recorder.Close(), file.Close())
//
// Each request is one line of CSV: the time at which the transport got the request, the method and the path. The line
// does not say how often the request was sent or how it ended. Rejected requests are also recorded, because a replay
// determines the outcome itself. The path contains no real id and no token. The ids of channels, guilds and webhooks
// are replaced by numbers: hashes with a random key that is not stored. Within a recording, an id always has the same
// number, and nothing else can be inferred from the number. All other parameters are replaced by placeholders. A line
// is about 80 bytes long.
//
// No request ever waits for the recorder. If the writer is too slow, some requests are not recorded, and LeftOut counts
// them.
package trace
