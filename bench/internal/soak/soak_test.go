package soak

import (
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
)

// lengthVariable says how long TestSoak is to last, such as 24h.
const lengthVariable = "RATELIGHT_SOAK"

// TestSoak soaks for ten minutes of virtual time. For a day, which takes a few minutes:
//
//	RATELIGHT_SOAK=24h go test ./bench/internal/soak -run TestSoak -v
func TestSoak(t *testing.T) {
	length := 10 * time.Minute
	if given := os.Getenv(lengthVariable); given != "" {
		var err error
		length, err = time.ParseDuration(given)
		require.NoError(t, err)
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC))) // the ids of messages begin with 2015
		search, bodies := newSearcher(), &openBodies{}
		result, err := Run(t.Context(), Options{Length: length, Seed: 1, witness: newWitness(search, bodies, length)})
		require.NoError(t, err)
		var text strings.Builder
		require.NoError(t, result.Report().WriteText(&text))
		t.Log("\n" + text.String())
		assert.Empty(t, result.Broken)
		assert.Zero(t, bodies.Load(), "bodies that were not closed")
		texts, size, found := search.results()
		t.Logf("searched %d texts, %d bytes, for tokens", texts, size)
		assert.NotZero(t, texts)
		assert.Empty(t, found)
	})
}

// newWitness searches all that it sees for tokens, and counts bodies.
func newWitness(search *searcher, bodies *openBodies, length time.Duration) *witness {
	look := func(transport *httpclient.Transport) {
		search.value("stats", transport.Manager().Stats(), allFormats...)
		for snapshot := range transport.Manager().Buckets() {
			search.value("snapshot", snapshot, "%+v", "%#v")
		}
	}
	var outcomes atomic.Int64
	return &witness{
		rounds: min(max(int(length/(30*time.Minute)), 12), 48),
		options: []httpclient.Option{
			httpclient.WithLogger(search.logger()), httpclient.WithHooks(search.transportHooks()), httpclient.WithBuckets(search.managerHooks()),
		},
		below: bodies.below,
		above: func(transport http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				bodies.request(r)
				response, err := transport.RoundTrip(r)
				search.err("error", err)
				if outcomes.Add(1)%250 == 0 {
					look(transport.(*httpclient.Transport))
				}
				return response, err
			})
		},
		rest: func(transport *httpclient.Transport) {
			look(transport)
			synctest.Wait()
			if raceDetector || transport.Manager().Stats().Waiting > 0 { // what waits may know its token
				return
			}
			search.value("transport", transport, allFormats...) // fmt takes no locks
			search.value("manager", transport.Manager(), allFormats...)
			search.dump("transport", transport)
		},
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// openBodies counts the bodies that were not closed.
type openBodies struct{ atomic.Int64 }

type body struct {
	io.Reader
	close func() error
}

func (b *body) Close() error { return b.close() }

// count returns a body that is counted until it is closed.
func (o *openBodies) count(content io.ReadCloser) io.ReadCloser {
	o.Add(1)
	closed := sync.OnceFunc(func() { o.Add(-1) })
	return &body{content, func() error {
		closed()
		return content.Close()
	}}
}

// request counts the bodies of a request.
func (o *openBodies) request(r *http.Request) {
	r.Body = o.count(r.Body)
	if again := r.GetBody; again != nil {
		r.GetBody = func() (io.ReadCloser, error) {
			content, err := again()
			return o.count(content), err
		}
	}
}

// below counts the bodies of responses.
func (o *openBodies) below(base http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := base.RoundTrip(r)
		if err == nil && response.Body != nil && response.Body != http.NoBody {
			response.Body = o.count(response.Body)
		}
		return response, err
	})
}

func TestBodiesAreCountedUntilTheyAreClosed(t *testing.T) {
	t.Parallel()
	bodies := &openBodies{}
	base := bodies.below(roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{Body: io.NopCloser(strings.NewReader("x"))}, nil
	}))
	request, err := http.NewRequest(http.MethodPost, "http://discord.com", strings.NewReader("x"))
	require.NoError(t, err)
	bodies.request(request)
	again, err := request.GetBody()
	require.NoError(t, err)
	response, err := base.RoundTrip(nil)
	require.NoError(t, err)
	assert.EqualValues(t, 3, bodies.Load())
	require.NoError(t, response.Body.Close())
	require.NoError(t, response.Body.Close())
	require.NoError(t, request.Body.Close())
	require.NoError(t, again.Close())
	assert.Zero(t, bodies.Load())
}
