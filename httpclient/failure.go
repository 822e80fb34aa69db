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

// permanentFailure reports an error that the next attempt would meet again. That there is no such host is none: Discord's hosts exist, and
// resolvers say so while a network comes up. Neither is an alert of TLS, whose types net/http does not tell.
func (x *roundTrip) permanentFailure(err error) bool {
	return err != nil && (untrusted(err) || misconfigured(err) || x.unsendable(err) || ofWrongLength(err))
}

// untrusted reports that the server did not prove who it is, or does not speak TLS. No request was sent to it.
func untrusted(err error) bool {
	if record, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return record.Conn != nil // instead of a handshake; otherwise it is a connection that broke
	}
	return errors.Is(err, http.ErrSchemeMismatch) || // what http.Client makes of that
		is[*tls.CertificateVerificationError](err) || is[*tls.ECHRejectionError](err) ||
		is[x509.UnknownAuthorityError](err) || is[x509.HostnameError](err) || is[x509.CertificateInvalidError](err) ||
		is[x509.ConstraintViolationError](err) || is[x509.UnhandledCriticalExtension](err) ||
		is[x509.InsecureAlgorithmError](err) || is[x509.SystemRootsError](err)
}

// misconfigured reports an address or feature that there cannot be, and redirects that lead in a circle.
func misconfigured(err error) bool {
	for outer, ok := errors.AsType[*url.Error](err); ok; outer, ok = errors.AsType[*url.Error](outer.Err) {
		if outer.Op == "parse" || outer.Err != nil && outer.Err.Error() == "stopped after 10 redirects" { // which has no type
			return true
		}
	}
	return errors.Is(err, errors.ErrUnsupported) ||
		is[*net.AddrError](err) || is[*net.ParseError](err) || is[net.UnknownNetworkError](err) || is[net.InvalidAddrError](err)
}

// unsendable reports a request that http.Transport refuses before it sends anything. Its errors have no types, so this looks at what it
// looks at; except for what depends on the scheme, which may be one that was registered, and on the protocol of the connection.
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
	if !x.body.repeatable() { // whoever still reads the body may be filling them in
		trailer = nil
	}
	return !isHeader(x.header) || !isHeader(trailer) ||
		strings.Contains(err.Error(), "http2: invalid ") || strings.Contains(err.Error(), "http2: request header list larger than")
}

// ofWrongLength reports a body that is shorter or longer than its request says. net/http notices when it has sent some of it.
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

// is reports whether there is an error of type E in an error's tree.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// temporaryStatus reports a status of a failure that will pass: those of Discord and of Cloudflare in front of it.
func temporaryStatus(status int) bool {
	switch status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, 529:
		return true
	}
	return 520 <= status && status <= 524
}

// neverSent reports an error from before anything was sent: no connection came about.
func neverSent(err error) bool {
	var operation *net.OpError
	return errors.As(err, &operation) && (operation.Op == "dial" || operation.Op == "proxyconnect") || untrusted(err)
}
