// Package discordgolimit makes every option of an [httpclient.Transport] effective under discordgo.
//
//	transport := httpclient.NewTransport(httpclient.WithMaxRateLimit(10 * time.Second))
//	defer transport.Close()
//	discordgolimit.Prepare(session, transport)
//
//	message, err := discordgolimit.Call(session).ChannelMessageSend(channelID, "hello", discordgo.WithContext(ctx))
//
// # Why each call needs a Call
//
// For each channel and route, discordgo holds a mutex from before a request until after the response, and no setting of
// a session changes that. Requests wait for the mutex before the transport sees them, so only one of them is in flight
// at a time. Contexts do not end this wait, priorities do not change the order, and predictions and statistics do not
// include the wait. The mutex belongs to the session's Ratelimiter. Call returns a session that has its own
// Ratelimiter, and shares everything else with the original session. Call takes one to two microseconds.
//
// The transport also limits the calls that are made with the session itself, but these calls first have to wait for
// discordgo's mutex. The README says which options have no effect on them.
//
// # Errors
//
// In discordgo's errors, errors.As finds *ratelimits.TooLongError and the transport's other errors, and errors.Is finds
// context.DeadlineExceeded and context.Canceled. An error response of Discord is a *discordgo.RESTError, as without the
// transport.
package discordgolimit
