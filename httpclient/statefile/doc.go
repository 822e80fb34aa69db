// Package statefile keeps the state of a transport or a bucket manager in a file, so that a program which is started
// again goes on where the one before has ended: it knows the buckets of routes, and what is used up and held.
//
//	transport := httpclient.NewTransport()
//	defer transport.Close()
//	file, err := statefile.Open("/var/lib/bot/limits", transport)
//	if err != nil { ... }
//	defer file.Close() // closes the transport, and writes the file for the last time
//
// After Close the next process goes on exactly there. What was written before the last Close, because the process was
// killed, may be ten seconds old (WithInterval): the next process then takes all windows that it knows for used up, and
// waits for one period of each. What has been found out since the file was written is found out again.
//
// Of credentials only those are kept, as hashes, that have worked within a week. That Discord has refused one is not
// kept: the next process tries it again.
//
// # What protects the file
//
// Nobody but its owner can read it (0600). It contains no credential and no token, only keyed hashes of them. The key
// is the secret of httpclient.WithStateKey, which has to be kept elsewhere. Without it the hashes are salted, and the
// salt is in the file: it does not give away a token that nobody can guess, and Discord's cannot be guessed, but who
// has a token can see whether it is one of these. Ids of channels, guilds and webhooks, and routes, are not hidden.
package statefile
