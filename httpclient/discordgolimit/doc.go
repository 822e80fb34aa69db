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
// For each channel and route, discordgo holds a mutex from before a request until after its response, and no setting of
// a session turns that off. Requests wait for that mutex before the transport sees them, so only one of them is in
// flight at a time. Contexts do not end that wait, priorities do not change its order, and predictions and statistics
// do not include it. The mutex belongs to the session's Ratelimiter. Call returns a session that has a Ratelimiter of
// its own and shares everything else with the original. Call takes one to two microseconds.
//
// The transport also limits a call that is made with the session itself. Before the transport sees such a call, the
// call also has to wait for discordgo's mutex. The README says which options have no effect then.
//
// # Errors
//
// errors.As finds *ratelimits.TooLongError and the transport's other errors in discordgo's errors; errors.Is finds
// context.DeadlineExceeded and context.Canceled. Error responses of Discord are a *discordgo.RESTError, as without the
// transport.
package discordgolimit
