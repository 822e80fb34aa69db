package httpclient

import "github.com/ratelight/ratelight/httpclient/internal/redact"

// Redact returns err with the secrets of URLs removed: tokens in paths, queries, and users with their passwords.
// http.Client returns a *url.Error, which contains the whole URL and so the token of a webhook; log Redact(err)
// instead.
//
// errors.Is and errors.As find the same errors as in err. A *url.Error found by errors.As is redacted, too; any other
// error that it finds is the original: do not log that. An error without secrets is returned unchanged, and nil for
// nil.
//
// Tokens are recognised by their position, after /webhooks/{id} and /interactions/{id}. Other segments of a path that
// have 16 characters or more are removed, too, unless they are ids or words of Discord's own paths: they may be the
// secret of a proxy.
func Redact(err error) error { return redact.Error(err) }
