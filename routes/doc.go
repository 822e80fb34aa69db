// Package routes identifies the endpoints of Discord's REST API in the way in which its rate limits distinguish them.
//
// Discord counts requests by route, which is a method and a path template, and, within a route, by its major parameter:
// a channel, a guild or a webhook. A [Route] is a method with a template; a [CompiledRoute] also has the parameters'
// values. Both are small comparable values that can be map keys.
//
// Each path has exactly one Route. [Match] turns any URL or path into a CompiledRoute, and [Route.Compile] fills in a
// template. Both give equal values for the same path, also where a parameter has a special value: GetUser compiled with
// "@me" is GetMyUser, and a webhook route compiled with an interaction's token is the interaction variant of that
// route. The only exception is the age of a deleted message, which is not part of the path; see [DeleteMessageAt].
//
// The documented operations are variables of this package, and [All] lists them:
//
//	route, err := routes.CreateMessage.Compile(channelID)
//	route, err := routes.Match(request.Method, request.URL.String())
//
// Match never fails for an endpoint that it does not know. It replaces everything in the path that is not a known word
// by a placeholder, so that the number of Routes is bounded; see [Match].
//
// Paths of webhooks and interactions contain a token. [CompiledRoute.Path] and [CompiledRoute.Major] return it, because
// the address and the limit depend on it. No String method, log value or error contains it.
//
// Everything here is immutable and safe for concurrent use. No function blocks or sends anything.
package routes
