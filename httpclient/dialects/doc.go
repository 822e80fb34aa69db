// Package dialects has functions that read the rate limits in responses of servers that are not compatible with
// Discord. Give a transport the function for each such server:
//
//	transport := httpclient.NewTransport(
//		httpclient.WithHosts(func(host string) (string, bool) { return host, host == "api.github.com" }),
//		httpclient.WithDialect("api.github.com", dialects.GitHub),
//	)
//
// Three rules of Discord apply to every server. A credential sends at most 50 requests a second, unless
// [github.com/ratelight/ratelight/buckets.WithGlobalLimit] says otherwise. 401s and 403s use up a budget, see
// [github.com/ratelight/ratelight/buckets.WithInvalidBudget]. Paths that look like Discord's, such as /channels/1 or
// /webhooks/1/token, have separate limits for each id.
//
// Limits that a server enforces but that its responses do not name can be declared:
// [github.com/ratelight/ratelight/buckets.WithLimit].
package dialects
