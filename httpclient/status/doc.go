// Package status is a page that shows what a bucket manager does at the moment, for the person who has to find out why
// requests are slow: which requests wait, what for, and until when; the global limit of each credential; the declared
// limits that requests wait for; what is held after a 429; the budget of invalid requests; what processes share; and
// how many waited and were refused in the last minutes.
//
// [Handler] serves it at one path, of the caller's choice, behind any prefix:
//
//	mux := http.NewServeMux() // on an address that only operators reach
//	mux.Handle("/ratelight", status.Handler(transport.Manager()))
//
// The page asks for its numbers each second while it is visible. The same path with ?format=json gives them to scripts:
//
//	curl -s 'http://127.0.0.1:9090/ratelight?format=json' | jq '.status.buckets[] | {routes, major, waits_for, wait_seconds}'
//
// With [WithLift] it shows which credentials are not used for now, as Discord has refused them, and has buttons that
// lift what stops requests:
//
//	mux.Handle("/ratelight", status.Handler(transport.Manager(), status.WithLift(transport)))
//
// The page is one file, without anything from elsewhere. It shows no credential and no token, but the ids of channels,
// guilds and webhooks, and it asks nobody for a password: serve it where only operators get.
//
// Nothing runs while nobody looks. The curves are made of the samples that were taken when somebody did.
package status
