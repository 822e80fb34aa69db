// Package routes names the endpoints of Discord's REST API the way its rate limits see them.
//
// Discord counts requests by route, which is a method and a path template, and, within a route, by its major parameter:
// a channel, a guild, a webhook. [Route] is the first, [CompiledRoute] is a route with its parameters filled in. Both are
// small comparable values, made to be map keys.
//
// The package has one idea: a path has one Route, whoever builds it. [Match] turns any URL or path into a CompiledRoute,
// [Route.Compile] fills in a template, and both give equal values for the same path. That holds when the filled in
// parameter means something else than its name says: GetUser compiled with "@me" is GetMyUser, and a webhook route
// compiled with an interaction's token is the interaction variant of that route. A single exception is the age of a
// deleted message, which is no part of the path; see [DeleteMessageAt].
//
// The documented operations are variables of this package, and [All] lists them:
//
//	route, err := routes.CreateMessage.Compile(channelID)
//	route, err := routes.Match(request.Method, request.URL.String())
//
// Match never fails for an endpoint that it does not know. It replaces everything in the path that is not a known word by
// a placeholder, so that the number of Routes stays bounded whatever paths are asked for; see [Match].
//
// Paths of webhooks and interactions contain a token. [CompiledRoute.Path], [CompiledRoute.Major] and
// [CompiledRoute.MajorToken] return it, since it is a part of the address and of the limit. Nothing else does: no String
// method, no log value, no error.
//
// Everything here is immutable and safe for concurrent use. Nothing blocks, nothing is sent.
package routes
