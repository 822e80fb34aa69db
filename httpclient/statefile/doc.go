// Package statefile stores the state of a transport or a bucket manager in a file. After a restart a program continues
// from that state: it knows the routes' buckets, which limits are used up, and the holds.
//
//	transport := httpclient.NewTransport()
//	defer transport.Close()
//	file, err := statefile.Open("/var/lib/bot/limits", transport)
//	if err != nil { ... }
//	defer file.Close() // closes the transport, and writes the file for the last time
//
// The package is for services that restart. After a start, holds and windows last for as long as they had left at the
// stop. Of the time between stop and start, only what exceeds an hour is subtracted, because the clock may have been
// set meanwhile. So if a program is always started again within an hour, holds get shorter only while it runs.
//
// After Close, the next process continues exactly from the last state. If the process is killed, the file may be ten
// seconds old (WithInterval). The next process then assumes that all known windows are used up, and waits for one
// period of each window. It learns again what the killed process had learned since the file was written.
//
// Of credentials, only hashes of those that have worked within a week are stored. That Discord has refused a credential
// is not stored, so the next process tries it again.
//
// # What protects the file
//
// Only its owner can read the file (0600). It contains no credential and no token, only keyed hashes of them. The key
// is the secret of httpclient.WithStateKey, which has to be stored elsewhere. Without that secret the hashes are
// salted, and the salt is in the file. The hashes do not reveal tokens that nobody can guess, such as Discord's. But
// whoever has the file can find out whether a given token is one of those that were hashed. Routes and the ids of
// channels, guilds and webhooks are not hidden.
package statefile
