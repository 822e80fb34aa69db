// Package discordtest is a fake Discord REST server for tests of programs that use Discord.
//
// It responds like Discord, limits requests like Discord, and records all requests. It does not depend on how a client
// works, so it can test any: a bot that uses only net/http, a library, or the transport of package httpclient.
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
// [Server.Client] sends requests to discord.com, discordapp.com and their subdomains, with https or http, to the fake. No other host can be
// reached with it, Discord's CDN included, so that a test never talks to the network by accident. A program that takes a base URL can be given
// [Server.URL]. If it has an HTTP client of its own that keeps connections, net/http repeats some requests by itself when one is cut ([Cut], [Lose]).
//
// It can be used in a program, too: [NewServer] takes nil instead of t. To put it below a transport of package httpclient:
//
//	httpclient.NewTransport(httpclient.WithBase(server.Client().Transport))
//
// There is no gateway behind it: GET /gateway/bot is answered with {} like everything else, and websockets cannot be opened.
//
// # Time
//
// In a testing/synctest bubble everything happens in memory and in the bubble's time: minutes of waiting take no time. URL is then
// http://discord.com, which only Client takes to the fake. Elsewhere the server listens on the loopback interface and time is real. [NewServer]
// finds out by itself, so it has to be called in the bubble in which the server is used, with the bubble's t. A bubble does not end before all
// its goroutines have: it panics with "blocked goroutines remain" if a response's body was never closed.
//
// # Which requests a rule is about
//
// A rule names an operation in one of these ways:
//
//   - method and path template, without /api/v10: "POST /channels/{id}/messages". What stands in braces does not matter. A request's ids have
//     to be numbers, as Discord's are: /channels/general/messages is another operation.
//   - the same with an id instead of braces, for one channel or guild: "POST /channels/123/messages".
//   - its name in Discord's API description: "create_message".
//   - method and a path that ends in /**, for endpoints that Discord does not document: "GET
//     /guilds/{id}/experiments/**".
//   - "*" for all requests.
//
// Anything else, and any other invalid rule, fails the test.
//
// Limits: the first rule that names a request's operation limits it, so the rule for one channel stands before the one for all. "*" is about what
// no other limit names, wherever it stands. Answers and faults: of each kind (an answer, a 429, a broken
// connection, a slow body) the first one that applies is used.
//
// # Limits without any rule
//
// Discord does not publish its limits; only responses contain them. The fake has limits of the usual size: five
// messages in five seconds for each channel, one reaction in 250 ms, two changes of a channel's name or topic in ten
// minutes, five requests in a second for every other operation, none for responses to interactions; 50 requests in a
// second for each authorization; a ban for 10 000 invalid requests (401, 403 and most 429s) in ten minutes. The last
// two are documented by Discord.
//
// [Discord] replaces them with the limits that were measured at the real server, route by route. The command
// fake-discord, in this directory, serves them to programs in any language.
//
// Limits are counted as by Discord: for each value of the Authorization header and for each major parameter (channel,
// guild, webhook).
//
// # Nonces
//
// As at Discord, a message with a nonce and enforce_nonce is created once: if its author has created one with the same nonce in the five
// minutes before, the answer is that to the first one, and [Request.Repeated] is set. It counts for the limits all the same.
//
// # Refused and avoidable
//
// [Server.Refused] returns all requests that were answered with a 429. [Server.Avoidable] returns those of them that a
// correct client would not have sent: because a response that it had read said so, or because its own requests used up
// the limit. The first 429 of a hidden limit, or of Refuse, is not avoidable; a request within its retry-after is. A
// burst of many requests to an unused route is avoidable, too: a correct client sends one first and learns from its
// response how many may follow.
//
// On the loopback interface a response counts as read 20 ms after it was sent, to allow for a busy machine.
package discordtest
