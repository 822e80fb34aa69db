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
// discordgo locks a mutex for each channel and route from before a request until after its response, and no setting of a session takes that
// away. Requests wait in that mutex before the transport sees them: no context ends that wait, no priority changes its
// order, no prediction and no statistics know of it, and only one request is under way at a time. The mutex belongs to the session's
// Ratelimiter, so Call returns a session that has one of its own and shares everything else. It costs one to two microseconds.
//
// A call that is made with the session itself stays as correct: the transport sees to it that Discord does not refuse it. It only
// waits in discordgo's mutex first. See the README for what is lost by that.
//
// # Errors
//
// errors.As finds *ratelimits.TooLongError and the transport's other errors in those that discordgo returns; errors.Is finds
// context.DeadlineExceeded and context.Canceled. What Discord answers is a *discordgo.RESTError, as without the transport.
package discordgolimit
