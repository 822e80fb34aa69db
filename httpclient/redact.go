package httpclient

import "github.com/ratelight/ratelight/httpclient/internal/redact"

// Redact returns err without the secrets of URLs: tokens in paths, queries, and user names with passwords. http.Client
// returns a *url.Error, which contains the whole URL and so the token of a webhook; log Redact(err) instead.
//
// errors.Is and errors.As find the same errors as in err. If errors.As finds a *url.Error, it is redacted, too. Any
// other error that errors.As finds is the original: do not log that error. An error without secrets is returned
// unchanged. Redact(nil) is nil.
//
// Tokens are recognised by their position, after /webhooks/{id} and /interactions/{id}. Other segments of a path with
// 16 characters or more are removed, too, unless they are ids or words of Discord's own paths: they may be the secret
// of a proxy.
func Redact(err error) error { return redact.Error(err) }
