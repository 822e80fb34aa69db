// Package dialects reads the rate limits of servers that do not speak Discord's dialect. Give one to a transport for
// each server:
//
//	transport := httpclient.NewTransport(
//		httpclient.WithHosts(func(host string) (string, bool) { return host, host == "api.github.com" }),
//		httpclient.WithDialect("api.github.com", dialects.GitHub),
//	)
//
// Three things stay Discord's on every server. A credential sends at most 50 requests a second, unless
// [github.com/ratelight/ratelight/buckets.WithGlobalLimit] says otherwise. 401s and 403s use up a budget, see
// [github.com/ratelight/ratelight/buckets.WithInvalidBudget]. And paths that look like Discord's, such as /channels/1 or
// /webhooks/1/token, have limits for each of those ids.
//
// Limits that a server enforces but that its responses do not name can be declared:
// [github.com/ratelight/ratelight/buckets.WithLimit].
package dialects
