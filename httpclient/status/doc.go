// Package status serves a page that shows what a bucket manager is doing now, for operators who want to know why
// requests are slow. The page shows which requests wait, for which limit, and until when. It also shows the global
// limit of each credential, the declared limits that requests wait for, holds after a 429, the budget of invalid
// requests, the sharing of limits with other processes, and how many requests waited and were refused in the last
// minutes.
//
// [Handler] serves the page. It ignores the path of a request, so it works at any path:
//
//	mux := http.NewServeMux() // on an address that only operators reach
//	mux.Handle("/ratelight", status.Handler(transport.Manager()))
//
// The page fetches its numbers each second while it is visible. Scripts get the numbers from the same path with
// ?format=json:
//
//	curl -s 'http://127.0.0.1:9090/ratelight?format=json' |
//	  jq '.status.buckets[] | {routes, major, waits_for, wait_seconds}'
//
// With [WithLift], the page also lists the credentials that rest: they are not used for some time, because Discord has
// refused them. Buttons on the page end these rests, and the holds after 429s:
//
//	mux.Handle("/ratelight", status.Handler(transport.Manager(), status.WithLift(transport)))
//
// The page is one file and loads nothing from elsewhere. It shows no credential and no token, but it does show the ids
// of channels, guilds and webhooks. Everybody who can reach the page can read it, so serve it where only operators have
// access.
//
// While nobody views the page, it takes no samples, so that its curves have gaps.
package status
