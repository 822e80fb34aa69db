package httpclient_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// The first request of a route is sent alone. An upload whose body has not begun must not be that request.
func TestAnUploadThatHasNotBegunHoldsNobody(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]httpclient.Option{
		"large":        nil,
		"not kept":     {httpclient.WithMaxBufferedBody(0)},
		"no room":      {httpclient.WithMaxBufferedTotal(0)},
		"with GetBody": nil,
	} {
		inBubble(t, name, func(t *testing.T) {
			transport := newTransport(t, newServer(t, swallow), options...)
			source, writer := io.Pipe()
			length := int64(1 << 20)
			if name == "large" {
				length = 3 << 20
			}
			r := unreplayable(newMessage(t), source, length)
			if name == "with GetBody" {
				r.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("it is not needed") }
			}
			upload := send(transport, r)
			time.Sleep(time.Second)
			next := send(transport, newMessage(t))
			assertStatus(t, http.StatusOK, next)
			assert.Less(t, next.took, time.Second)
			go func() { _, _ = writer.Write(make([]byte, length)); writer.Close() }()
			assertStatus(t, http.StatusOK, upload)
		})
	}
}

// The second attempt reads from a new source, which does not give anything at first.
func TestAnUploadThatHasNotBegunAgainHoldsNobody(t *testing.T) {
	inBubbles(t, map[string]responder{
		"after a 429": refuse("user", "1"), "after a failure": answer(http.StatusBadGateway, ""),
	}, func(t *testing.T, first responder) {
		transport := newTransport(t, newScript(first, answer(http.StatusOK, "")))
		source, writer := io.Pipe()
		r := newRequest(t, http.MethodPut, "/api/v10/guilds/1/bans/2", "")
		r = unreplayable(r, io.LimitReader(endless{}, 3<<20), 3<<20)
		r.Header.Set("Content-Type", "multipart/form-data") // in a form, the transport does not look for a nonce
		r.GetBody = func() (io.ReadCloser, error) { return source, nil }
		upload := send(transport, r)
		time.Sleep(5 * time.Second)
		next := send(transport, newRequest(t, http.MethodPut, "/api/v10/guilds/1/bans/3", "{}"))
		assertStatus(t, http.StatusOK, next)
		assert.Less(t, next.took, time.Second)
		go func() { _, _ = writer.Write(make([]byte, 3<<20)); writer.Close() }()
		assertStatus(t, http.StatusOK, upload)
	})
}

// An upload that makes slow progress is the first request of its route. After 15 s the others are sent without its
// outcome.
func TestAnUploadThatTricklesDelaysTheDiscoveryOfItsRouteABoundedTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := newDiscord(t, everything(discordsim.Fixed(5, 5*time.Second)))
		below := &http.Transport{DialContext: server.DialContext}
		defer below.CloseIdleConnections()
		transport := newTransport(t, below)
		source, writer := io.Pipe()
		go func() {
			defer writer.Close()
			for range 60 {
				time.Sleep(5 * time.Second)
				_, _ = writer.Write(make([]byte, 64<<10))
			}
		}()
		upload := send(transport, unreplayable(newMessage(t), source, 60*64<<10))
		time.Sleep(5 * time.Second)
		var others []*call
		for range 10 {
			time.Sleep(100 * time.Millisecond)
			others = append(others, send(transport, newMessage(t)))
		}
		assertStatus(t, http.StatusOK, others...)
		for _, c := range others {
			assert.Less(t, c.took, 15*time.Second+2*(5*time.Second+slack))
		}
		assertStatus(t, http.StatusOK, upload)
		assert.Greater(t, upload.took, 4*time.Minute)
		assert.Zero(t, server.Report().Refused.Total())
	})
}

func TestAnUploadThatNeverBeginsTimesOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		transport := newTransport(t, newServer(t, swallow))
		source, _ := io.Pipe()
		r := unreplayable(newMessage(t), nil, 3<<20)
		r.Body = source
		c := send(transport, r).wait()
		assertAttemptTimeout(t, 15*time.Second, c.err)
		assert.Equal(t, 15*time.Second, c.took)
		assert.Zero(t, transport.Manager().Stats().Granted)
	})
}

// Reading a body into memory has the same timeout as sending a body.
func TestABodyThatStopsBeforeItIsKeptTimesOut(t *testing.T) {
	t.Parallel()
	for name, length := range map[string]int64{"of a known length": 1000, "of unknown length": -1} {
		inBubble(t, name, func(t *testing.T) {
			below := newScript(answer(http.StatusOK, ""))
			transport := newTransport(t, below)
			source, writer := io.Pipe()
			go func() {
				for range 3 {
					_, _ = writer.Write([]byte("piece"))
					time.Sleep(10 * time.Second)
				}
			}()
			r := unreplayable(newMessage(t), nil, length)
			r.Body = source
			c := send(transport, r)
			time.Sleep(time.Hour)
			if assert.True(t, c.over(), "it waits") {
				assertAttemptTimeout(t, 15*time.Second, c.err)
				assert.Equal(t, 35*time.Second, c.took)
			}
			_, err := writer.Write([]byte("late"))
			assert.ErrorIs(t, err, io.ErrClosedPipe)
			assert.Empty(t, below.requests())
		})
	}
}

// If its credential is stopped meanwhile, a request stops waiting for its body. If it was stopped before, the body is
// not read.
func TestTheWaitForABodyEndsWhenItsCredentialIsStopped(t *testing.T) {
	t.Parallel()
	for name, length := range map[string]int64{"sent as it comes": 3 << 20, "read into memory": -1} {
		inBubble(t, name, func(t *testing.T) {
			transport := newTransport(t, newScript(unauthorized))
			silent := func() (*call, *io.PipeWriter) {
				source, writer := io.Pipe()
				r := unreplayable(posting(t, 1), nil, length)
				r.Body = source
				return send(transport, r), writer
			}
			during, writer := silent()
			time.Sleep(time.Second)
			me, gateway := send(transport, getting(t, "/users/@me")), send(transport, getting(t, "/gateway/bot"))
			assertStatus(t, http.StatusUnauthorized, me, gateway)
			after, _ := silent()
			for _, c := range []*call{during, after} {
				assert.ErrorAs(t, c.wait().err, new(*httpclient.CredentialError))
			}
			assert.Equal(t, time.Second, during.took)
			assert.Zero(t, after.took)
			_, err := writer.Write([]byte("late"))
			assert.ErrorIs(t, err, io.ErrClosedPipe)
		})
	}
}

// An urgent request may be sent although other requests would wait too long. Its body is kept like any other.
func TestTheBodyOfAnUrgentRequestIsKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		full := limitHeaders("X-RateLimit-Remaining: 0", "X-RateLimit-Limit: 1", "X-RateLimit-Reset-After: 10")
		below := newScript(answer(http.StatusOK, "", full...), refuse("user", "1"), answer(http.StatusOK, "", full...))
		transport := newTransport(t, below, httpclient.WithMaxRateLimit(time.Minute))
		assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
		var others []*call
		for range 6 {
			others = append(others, send(transport, newMessage(t)))
		}
		synctest.Wait()
		r := unreplayable(newMessage(t), strings.NewReader("{}"), -1)
		urgent := send(transport, r.WithContext(buckets.ContextWithPriority(t.Context())))
		assertStatus(t, http.StatusOK, urgent)
		for _, c := range others {
			c.wait()
		}
	})
}
