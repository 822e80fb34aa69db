// Package dialects has functions that read rate limits from the responses of servers that are not compatible with
// Discord. Pass the function for each such server to the transport:
//
//	transport := httpclient.NewTransport(
//		httpclient.WithHosts(func(host string) (string, bool) { return host, host == "api.github.com" }),
//		httpclient.WithDialect("api.github.com", dialects.GitHub),
//	)
//
// Three rules of Discord are also applied to these servers. With each credential, at most 50 requests are sent per
// second, unless [github.com/ratelight/ratelight/buckets.WithGlobalLimit] sets another limit. 401s and 403s use up a
// budget, see [github.com/ratelight/ratelight/buckets.WithInvalidBudget]. If a path looks like one of Discord's, such
// as /channels/1 or /webhooks/1/token, it has separate limits for each id.
//
// If a server enforces a limit that its responses do not name, declare the limit with
// [github.com/ratelight/ratelight/buckets.WithLimit].
package dialects
