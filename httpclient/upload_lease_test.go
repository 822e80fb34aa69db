package httpclient_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/httpclient"
)

// The first request of a route goes alone. An upload of which nothing has come yet is not that request.
func TestAnUploadThatHasNotBegunHoldsNobody(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]httpclient.Option{
		"large":    nil,
		"not kept": {httpclient.WithMaxBufferedBody(0)},
		"no room":  {httpclient.WithMaxBufferedTotal(0)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				transport := newTransport(t, newServer(t, swallow), options...)
				source, writer := io.Pipe()
				length := int64(1 << 20)
				if name == "large" {
					length = 3 << 20
				}
				upload := send(transport, unreplayable(newMessage(t), source, length))
				time.Sleep(time.Second)
				next := send(transport, newMessage(t))
				assertStatus(t, http.StatusOK, next)
				assert.Less(t, next.took, time.Second)
				go func() { _, _ = writer.Write(make([]byte, length)); writer.Close() }()
				assertStatus(t, http.StatusOK, upload)
			})
		})
	}
}

func TestAnUploadThatNeverBeginsTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
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
