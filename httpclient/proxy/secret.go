package proxy

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// minSecret is the minimum length of a secret, in bytes.
const minSecret = 16

// RequireSecret returns a handler that passes only requests with a secret to next. The secret is either in the header
// X-Ratelight-Secret or in the first segment of the path, which the handler removes. The path is for libraries in which
// only the base URL can be changed: http://proxy:8080/SECRET/api/v10. Requests without the secret get a 400, because a
// 401 or 403 would look like an answer of Discord. The secret is compared in constant time.
//
// The secret must have at least 16 bytes. Each byte must be a letter, a digit or one of - . _ ~, because URLs never
// escape these characters. For any other secret, RequireSecret returns an error that wraps ErrOptions.
func RequireSecret(secret string, next http.Handler) (http.Handler, error) {
	plain := func(r rune) bool {
		return 'a' <= r|0x20 && r|0x20 <= 'z' && r < 0x80 || '0' <= r && r <= '9' || strings.ContainsRune("-._~", r)
	}
	if len(secret) < minSecret || strings.ContainsFunc(secret, func(r rune) bool { return !plain(r) }) {
		return nil, fmt.Errorf("%w: a secret of %d bytes: expected %d or more, letters, digits and - . _ ~ only",
			ErrOptions, len(secret), minSecret)
	}
	want := sha256.Sum256([]byte(secret)) // hashes have equal lengths
	isSecret := func(text string) bool {
		got := sha256.Sum256([]byte(text))
		return subtle.ConstantTimeCompare(got[:], want[:]) == 1
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first, _, _ := strings.Cut(strings.TrimLeft(r.URL.Path, "/"), "/")
		switch {
		case isSecret(first):
			next.ServeHTTP(w, withoutFirst(r, first))
		case isSecret(r.Header.Get(headerSecret)):
			next.ServeHTTP(w, r)
		default:
			badRequest("the secret of the proxy is missing or wrong: expected it in the header " + headerSecret +
				", or as the first part of the path, http://proxy/SECRET/api/v10").write(w)
		}
	}), nil
}

// withoutFirst returns the request without the first segment of its path. That segment contains nothing that URLs
// escape.
func withoutFirst(r *http.Request, first string) *http.Request {
	cut := func(path string) string { // an empty path would make http.ServeMux redirect
		return "/" + strings.TrimPrefix(strings.TrimPrefix(strings.TrimLeft(path, "/"), first), "/")
	}
	out := r.WithContext(r.Context())
	out.URL = new(url.URL)
	*out.URL = *r.URL
	if out.URL.Path = cut(r.URL.Path); r.URL.RawPath != "" {
		out.URL.RawPath = cut(r.URL.RawPath)
	}
	return out
}
