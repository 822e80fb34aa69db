// Package discordtest is a fake Discord REST server for tests of programs that use Discord.
//
// It responds like Discord, limits requests like Discord, and records all requests. It works with any client: a bot
// that uses only net/http, a library, or the transport of package httpclient.
//
//	func TestWelcome(t *testing.T) {
//		server := discordtest.NewServer(t,
//			discordtest.Window("POST /channels/{id}/messages", 5, 5*time.Second),
//			discordtest.Answer("GET /users/@me", 200, map[string]any{"id": "42"}),
//			discordtest.Answer("create_message", 503, nil).Nth(1),
//		)
//		bot := NewBot(server.Client())
//		// … let the bot work …
//		if refused := server.Avoidable(); len(refused) > 0 {
//			t.Errorf("the bot sent too much: %v", refused)
//		}
//	}
//
// # How requests reach the fake
//
// The client that [Server.Client] returns sends a request to the fake if its URL has the scheme https or http and the
// host discord.com, discordapp.com or one of their subdomains. Requests to all other hosts fail, even to Discord's CDN,
// so that a test never uses the network by accident. Pass [Server.URL] to programs that take a base URL. If such a
// program keeps connections open, net/http itself repeats some requests whose connection [Cut] or [Lose] breaks.
//
// Programs other than tests pass nil instead of t to [NewServer]. To send the requests of a transport of package
// httpclient to the fake:
//
//	httpclient.NewTransport(httpclient.WithBase(server.Client().Transport))
//
// The fake has no gateway. GET /gateway/bot gets the answer {}, as does every request without an [Answer] or [Handle].
// Websockets cannot be opened.
//
// # Time
//
// In a testing/synctest bubble, everything happens in memory and in the bubble's virtual time, so that minutes of
// waiting take no real time. URL is then http://discord.com, and only Client reaches the fake. Outside of bubbles, the
// server listens on the loopback interface, and time is real. [NewServer] detects a bubble, so call it in the bubble in
// which the server is used, with the bubble's t. A bubble ends only when all its goroutines have ended. If the body of
// a response is never closed, the bubble panics with "blocked goroutines remain".
//
// # To which requests a rule applies
//
// A rule names an operation in one of these ways:
//
//   - by method and path template, without /api/v10: "POST /channels/{id}/messages". The words in braces do not matter.
//     In a request, ids must be numbers like those of Discord: /channels/general/messages is another operation.
//   - in the same way, but with an id instead of braces, for one channel or guild: "POST /channels/123/messages".
//   - by its name in Discord's API description: "create_message".
//   - by a method and a path that ends in /**, such as "GET /guilds/{id}/experiments/**", for endpoints that Discord
//     does not document.
//   - by "*", for all requests.
//
// A rule for any other operation is invalid. An invalid rule fails the test.
//
// If several limits name the operation of a request, the first of them applies, so put the rule for one channel before
// the rule for all channels. A limit on "*" applies to operations that no other limit names, wherever in the list it
// is. If several rules answer a request, only the first of these rules is used. If several faults of the same kind (a
// 429, a broken connection, a slow body) apply to a request, only the first of these faults is used.
//
// # Limits without any rule
//
// Discord does not publish its limits, but names them in responses. Without rules, the fake has limits of the usual
// size. A channel accepts five messages in five seconds, one reaction in 250 ms, and two changes of its name or topic
// in ten minutes. Responses to interactions have no limit. Every other operation has a limit of five requests in a
// second. Two more limits are those of Discord's documentation: 50 requests in a second for each authorization, and a
// ban of the IP address after 10 000 invalid requests (401, 403 and most 429s) in ten minutes.
//
// [Discord] replaces the limits of all operations by limits that were measured at the real Discord, route by route. The
// command fake-discord, in a subdirectory, serves a fake with the measured limits to programs in any language.
//
// Like Discord, the fake counts requests separately for each value of the Authorization header and for each major
// parameter (channel, guild, webhook).
//
// # Nonces
//
// As at Discord, a message with a nonce and enforce_nonce is created only once. If its author has created a message
// with the same nonce within the last five minutes, the request gets the same answer as the first request, and
// [Request.Repeated] is true. The request counts against the limits nevertheless.
//
// # Refused and avoidable
//
// [Server.Refused] returns all requests that got a 429. [Server.Avoidable] returns those of them that a correct client
// would not have sent, because a response that the client had read announced the refusal, or because the client's own
// requests had used up the limit. The first 429 of a hidden limit, or of [Refuse], is not avoidable. But if another
// request is sent before the retry-after of that 429 has passed, the 429 to that request is avoidable. If a client
// begins with a burst of many requests on a route, the 429s to these requests are also avoidable. A correct client
// first sends one request, and learns from the response how many may follow.
//
// On the loopback interface, the client is assumed to have read a response 20 ms after it was sent, because reading may
// take some time on a busy machine.
package discordtest
