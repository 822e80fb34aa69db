package httpclient

import "github.com/ratelight/ratelight/httpclient/internal/redact"

// Redact returns an error that says the same without the secrets of URLs: tokens in paths, queries, and users with their passwords. What
// http.Client returns is a *url.Error, which contains the whole address, and so the token of a webhook; log Redact(err) in its place.
//
// errors.Is and errors.As find what they find in err, and a *url.Error is redacted itself. What errors.As finds else is the error as it
// was made: do not log that. An error without secrets is returned as it is, and nil stays nil.
//
// Tokens are known by their place, after /webhooks/{id} and /interactions/{id}; other parts of a path that are longer than ids are
// hidden, too.
func Redact(err error) error { return redact.Error(err) }
