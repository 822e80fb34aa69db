// Package status serves a page that shows what a bucket manager does at the moment, for operators who want to know why
// requests are slow. It shows which requests wait, for which limit, and until when. It also shows the global limit of
// each credential, the declared limits that requests wait for, holds after a 429, the budget of invalid requests, the
// sharing of limits with other processes, and how many requests waited and were refused in the last minutes.
//
// [Handler] serves the page at one path of the caller's choice, behind any prefix:
//
//	mux := http.NewServeMux() // on an address that only operators reach
//	mux.Handle("/ratelight", status.Handler(transport.Manager()))
//
// The page fetches its numbers each second while it is visible. Scripts get them from the same path with ?format=json:
//
//	curl -s 'http://127.0.0.1:9090/ratelight?format=json' |
//	  jq '.status.buckets[] | {routes, major, waits_for, wait_seconds}'
//
// With [WithLift] the page also shows which credentials rest (are not used for some time, because Discord has refused
// them). It then has buttons that end such rests and holds:
//
//	mux.Handle("/ratelight", status.Handler(transport.Manager(), status.WithLift(transport)))
//
// The page is one file and loads nothing from elsewhere. It shows no credential and no token, but it does show the ids
// of channels, guilds and webhooks. It asks for no password, so serve it where only operators have access.
//
// No samples are taken while nobody views the page, so its curves have gaps then.
package status
