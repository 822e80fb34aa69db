// Package routes identifies the endpoints of Discord's REST API. It distinguishes them as Discord's rate limits do.
//
// Discord counts requests for each route (a method and a path template) and, within a route, for each value of the
// major parameter: a channel, a guild or a webhook. A [Route] is a method with a template. A [CompiledRoute] also has
// the values of the parameters. Both are small and comparable, so they can be map keys.
//
// Each path has exactly one Route. [Match] turns any URL or path into a CompiledRoute, and [Route.Compile] fills in a
// template. Both return equal values for the same path, even if a parameter has a special value: GetUser compiled with
// "@me" is GetMyUser, and a webhook route compiled with an interaction's token is the interaction variant of that
// route. The only exception is DELETE message, whose Route depends on the age of the message; see [DeleteMessageAt].
//
// The documented operations are variables of this package, and [All] lists them:
//
//	route, err := routes.CreateMessage.Compile(channelID)
//	route, err := routes.Match(request.Method, request.URL.String())
//
// Match does not fail if it does not know an endpoint. In that case it replaces the unknown parts of the path by
// placeholders, so that the number of Routes is bounded.
//
// Paths of webhooks and interactions contain a token. [CompiledRoute.Path] and [CompiledRoute.Major] return the token,
// because the address and the limit depend on it. No result of a String method, no log value and no error contains the
// token.
//
// All values of this package are immutable and safe for concurrent use. No function blocks or sends a request.
package routes
