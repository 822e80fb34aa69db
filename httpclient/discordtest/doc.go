// Package discordtest is a fake Discord REST server for tests of programs that use Discord.
//
// It responds like Discord, limits requests like Discord, and records all requests. It does not depend on how a client
// works, so it can test any client: a bot that uses only net/http, a library, or the transport of package httpclient.
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
// # How requests reach it
//
// [Server.Client] sends to the fake all requests whose host is discord.com, discordapp.com or one of their subdomains,
// with https or http. It reaches no other host, not even Discord's CDN, so that a test never uses the network by
// accident. Pass [Server.URL] to programs that take a base URL. If such a program keeps connections open, net/http
// itself repeats some requests when a connection is cut ([Cut], [Lose]).
//
// Programs other than tests can use the fake, too: they pass nil instead of t to [NewServer]. To put the fake below a
// transport of package httpclient:
//
//	httpclient.NewTransport(httpclient.WithBase(server.Client().Transport))
//
// The fake has no gateway: GET /gateway/bot gets the answer {}, like all requests without an [Answer] or [Handle], and
// websockets cannot be opened.
//
// # Time
//
// In a testing/synctest bubble everything happens in memory and in the bubble's time: minutes of waiting take no time.
// URL is then http://discord.com, and only Client reaches the fake. Elsewhere the server listens on the loopback
// interface and time is real. [NewServer] detects a bubble, so call it in the bubble in which the server is used, with
// the bubble's t. A bubble ends only when all its goroutines have ended. If a response's body was never closed, the
// bubble panics with "blocked goroutines remain".
//
// # To which requests a rule applies
//
// A rule names an operation in one of these ways:
//
//   - by method and path template, without /api/v10: "POST /channels/{id}/messages". The words in braces do not matter.
//     A request's ids must be numbers, as Discord's are: /channels/general/messages is another operation.
//   - in the same way with an id instead of braces, for one channel or guild: "POST /channels/123/messages".
//   - by its name in Discord's API description: "create_message".
//   - by a method and a path that ends in /**, for endpoints that Discord does not document: "GET
//     /guilds/{id}/experiments/**".
//   - by "*", for all requests.
//
// A rule that names any other operation is invalid, and an invalid rule fails the test.
//
// The first limit that names a request's operation applies, so put the rule for one channel before the rule for all
// channels. A limit on "*" applies to operations that no other limit names, wherever it is in the list. Of several
// rules that answer a request, and of several faults of one kind (a 429, a broken connection, a slow body), only the
// first one that applies is used.
//
// # Limits without any rule
//
// Discord does not publish its limits; only responses contain them. Without rules, the fake has limits of the usual
// size. A channel accepts five messages in five seconds, one reaction in 250 ms, and two changes of its name or topic
// in ten minutes. Responses to interactions have no limit. Each other operation has a limit of five requests in a
// second. Two limits are those of Discord's documentation: 50 requests in a second for each authorization, and a ban
// for 10 000 invalid requests (401, 403 and most 429s) in ten minutes.
//
// [Discord] replaces the limits of operations with those that were measured at the real server, route by route. The
// command fake-discord, in a subdirectory, serves a fake with the measured limits to programs in any language.
//
// The fake counts requests as Discord does, separately for each value of the Authorization header and for each major
// parameter (channel, guild, webhook).
//
// # Nonces
//
// As at Discord, a message with a nonce and enforce_nonce is created only once. If its author has created a message
// with the same nonce within five minutes, the request gets the same answer as the first request, and
// [Request.Repeated] is set. The request still counts against the limits.
//
// # Refused and avoidable
//
// [Server.Refused] returns all requests that got a 429. [Server.Avoidable] returns the refused requests that a correct
// client would not have sent, because a response that it had read announced the refusal, or because its own requests
// had used up the limit. The first 429 of a hidden limit, or of [Refuse], is not avoidable, but the 429 to a request
// within its retry-after is. The 429s to a burst of many requests on an unused route are avoidable, too, because a
// correct client sends one request first and learns from its response how many may follow.
//
// On the loopback interface a response counts as read 20 ms after it was sent, because the client may read it late on a
// busy machine.
package discordtest
