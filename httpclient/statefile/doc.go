// Package statefile stores the state of a transport or a bucket manager in a file. After a restart a program continues
// from that state: it knows the buckets of routes, which limits are used up, and the holds.
//
//	transport := httpclient.NewTransport()
//	defer transport.Close()
//	file, err := statefile.Open("/var/lib/bot/limits", transport)
//	if err != nil { ... }
//	defer file.Close() // closes the transport, and writes the file for the last time
//
// The package is for services that restart. After a start, holds and windows last as long as they had left at the stop.
// Of the time between stop and start, only what exceeds an hour is subtracted, because clocks may be set meanwhile. So
// if a program starts every minute, its holds do not end.
//
// After Close the next process continues exactly there. If the process is killed, the file may be ten seconds old
// (WithInterval). The next process then assumes that all known windows are used up, and waits for one period of each
// window. It learns again what the killed process had learned since the file was written.
//
// Only credentials that have worked within a week are stored, as hashes. Rests of credentials are not stored: the next
// process tries refused credentials again.
//
// # What protects the file
//
// Only its owner can read the file (0600). It contains no credential and no token, only keyed hashes of them. The key
// is the secret of httpclient.WithStateKey, which has to be stored elsewhere. Without that secret the hashes are
// salted, and the salt is in the file. The hashes do not reveal a token that cannot be guessed, as Discord's tokens
// cannot, but they show whether a given token is one of them. Ids of channels, guilds and webhooks, and routes, are not
// hidden.
package statefile
