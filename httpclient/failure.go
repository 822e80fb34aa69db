package httpclient

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/ratelight/ratelight/httpclient/internal/message"
)

// permanentFailure reports whether the next attempt would fail with the same error. The error "no such host" does not
// count as permanent, because Discord's hosts exist, and resolvers also return this error while the network is
// starting. A TLS alert does not count as permanent either, because crypto/tls does not export the type of that error.
func (x *roundTrip) permanentFailure(err error) bool {
	return err != nil && (untrusted(err) || misconfigured(err) || x.unsendable(err) || ofWrongLength(err))
}

// untrusted reports whether the server has not proved its identity, or does not use TLS. No request has been sent to
// such a server.
func untrusted(err error) bool {
	if record, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return record.Conn != nil // with a Conn, the server does not use TLS; without, the connection broke
	}
	return errors.Is(err, http.ErrSchemeMismatch) || // http.Client returns this error instead
		is[*tls.CertificateVerificationError](err) || is[*tls.ECHRejectionError](err) ||
		is[x509.UnknownAuthorityError](err) || is[x509.HostnameError](err) || is[x509.CertificateInvalidError](err) ||
		is[x509.ConstraintViolationError](err) || is[x509.UnhandledCriticalExtension](err) ||
		is[x509.InsecureAlgorithmError](err) || is[x509.SystemRootsError](err)
}

// misconfigured reports whether the error is due to an invalid address, an unsupported feature, or too many redirects.
func misconfigured(err error) bool {
	for outer, ok := errors.AsType[*url.Error](err); ok; outer, ok = errors.AsType[*url.Error](outer.Err) {
		// The error for too many redirects has no type of its own.
		if outer.Op == "parse" || outer.Err != nil && outer.Err.Error() == "stopped after 10 redirects" {
			return true
		}
	}
	return errors.Is(err, errors.ErrUnsupported) ||
		is[*net.AddrError](err) || is[net.InvalidAddrError](err) ||
		is[*net.ParseError](err) || is[net.UnknownNetworkError](err)
}

// unsendable reports whether http.Transport rejects the request before it sends anything. These errors of
// http.Transport have no types, so unsendable makes the same checks as http.Transport. Only the errors of HTTP/2 and
// the error for an unknown scheme are recognised by their text. (A check cannot tell whether a scheme is registered
// with the http.Transport.)
func (x *roundTrip) unsendable(err error) bool {
	r := x.request
	if r.URL == nil || r.URL.Host == "" || x.header == nil || r.Method != "" && !message.IsHeaderName(r.Method) ||
		r.ContentLength != 0 && r.Body == nil || !message.IsHeaderValue(r.URL.RequestURI()) {
		return true
	}
	if r.URL.Scheme != "http" && r.URL.Scheme != "https" {
		return strings.Contains(err.Error(), "unsupported protocol scheme")
	}
	trailer := r.Trailer
	if !x.body.repeatable() { // another goroutine may be reading the body and setting trailers
		trailer = nil
	}
	return !isHeader(x.header) || !isHeader(trailer) ||
		strings.Contains(err.Error(), "http2: invalid ") ||
		strings.Contains(err.Error(), "http2: request header list larger than")
}

// ofWrongLength reports whether the error says that the length of a body differs from the Content-Length of its
// request. net/http notices this only after it has sent a part of the body.
func ofWrongLength(err error) bool {
	text := err.Error()
	return strings.Contains(text, "http: ContentLength=") && strings.Contains(text, " with Body length ") ||
		strings.Contains(text, "http2: request body larger than specified content length")
}

func isHeader(header http.Header) bool {
	for name, values := range header {
		if !message.IsHeaderName(name) {
			return false
		}
		for _, value := range values {
			if !message.IsHeaderValue(value) {
				return false
			}
		}
	}
	return true
}

// is reports whether the tree of an error contains an error of type E.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// temporaryStatus reports whether a status is a temporary failure of Discord, or of Cloudflare in front of Discord.
func temporaryStatus(status int) bool {
	switch status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout, 529:
		return true
	}
	return 520 <= status && status <= 524
}

// neverSent reports whether the request was certainly not sent: no connection was made, or the server is untrusted.
func neverSent(err error) bool {
	var operation *net.OpError
	return errors.As(err, &operation) && (operation.Op == "dial" || operation.Op == "proxyconnect") || untrusted(err)
}
