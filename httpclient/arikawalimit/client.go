package arikawalimit

import (
	"net/http"

	"github.com/diamondburned/arikawa/v3/api"
	"github.com/diamondburned/arikawa/v3/utils/httputil"
	"github.com/diamondburned/arikawa/v3/utils/httputil/httpdriver"
)

// Prepare makes a client send through a transport, usually an *httpclient.Transport, and removes arikawa's own limiter.
// Several clients may share a transport. Call Prepare before the client is used. It is not safe for concurrent use.
//
// Prepare replaces the HTTP driver and the hooks of the client. The hooks include arikawa's limiter, so add your own
// hooks after Prepare. Prepare also sets Retries to 1, so that only the transport repeats requests. Clients made from
// this client with WithContext, WithLocale and webhook.FromAPI are also prepared. Clients made with webhook.New and
// webhook.NewCustom have limiters of their own.
func Prepare(client *api.Client, transport http.RoundTripper) {
	client.Client.Client = httpdriver.WrapClient(http.Client{Transport: transport})
	client.Client.Retries = 1
	client.Client.OnRequest = []httputil.RequestOption{identify(client.Session)}
	client.Client.OnResponse = nil
}

// identify sets the same headers as api.Client.InjectRequest, but does not wait in arikawa's limiter.
func identify(session *api.Session) httputil.RequestOption {
	return func(request httpdriver.Request) error {
		request.AddHeader(http.Header{"Authorization": {session.Token}, "User-Agent": {session.UserAgent}})
		return nil
	}
}
