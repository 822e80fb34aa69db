// Package statefile stores the state of a transport or a bucket manager in a file. After a restart, a program continues
// from that state: it knows the buckets of the routes, which limits are used up, and which requests must wait after a
// 429 (holds).
//
//	transport := httpclient.NewTransport()
//	defer transport.Close()
//	file, err := statefile.Open("/var/lib/bot/limits", transport)
//	if err != nil { ... }
//	defer file.Close() // closes the transport, and writes the file for the last time
//
// The package is for services that restart. The time between the stop and the start of a program counts only in part.
// Its first hour does not count, because the clock may have been set in the meantime: after the start, holds and
// windows last as long as they would still have lasted at the stop. The time beyond this hour is subtracted. Therefore,
// if a program is always started again within an hour, holds get shorter only while it runs.
//
// After Close, the next process continues exactly from the last state. If the process is killed, the file may be up to
// ten seconds old (see WithInterval). The next process then assumes that all known windows are used up, and waits for
// one period of each window. The next process does not know what the killed process had learned since the file was
// written.
//
// The file contains hashes of the credentials that have worked within a week. It does not say which credentials Discord
// has refused, so the next process tries such credentials again.
//
// # What protects the file
//
// Only the owner of the file can read it (0600). The file contains no credential and no token, only keyed hashes of
// them. The key is the secret of httpclient.WithStateKey. Store that secret elsewhere. If there is no such secret, the
// hashes are only salted, and the salt is in the file. Even then, the hashes do not reveal tokens that nobody can
// guess, such as Discord's. But without a secret, anyone who has the file can find out whether a given token is one of
// the hashed tokens. Routes and the ids of channels, guilds and webhooks are not hidden.
package statefile
