package httpclient

import "github.com/ratelight/ratelight/httpclient/internal/redact"

// Redact returns err without the secrets of URLs: tokens in paths, queries, and user names with passwords. An error of
// http.Client is a *url.Error, whose text contains the whole URL and so may contain the token of a webhook. Log
// Redact(err) instead of such an error.
//
// errors.Is and errors.As find the same errors as in err. If errors.As finds a *url.Error, this error is also redacted.
// Any other error that errors.As finds is the original error. Do not log such an error, because it may contain secrets.
// An error without secrets is returned unchanged. Redact(nil) is nil.
//
// Tokens are recognised by their position, after /webhooks/{id} and /interactions/{id}. Other segments of a path with
// 16 characters or more may be the secret of a proxy. Therefore such segments are also removed, unless they are ids or
// words of Discord's own paths.
func Redact(err error) error { return redact.Error(err) }
