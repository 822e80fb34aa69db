package rest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/rest"
)

// A stream can be sent again if the transport keeps the whole body. The body has a few hundred bytes more than the
// stream.
func TestClientSendsStreamsAgainThatTheTransportKeeps(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit int64
		sizes []int
		kept  bool
	}{
		"all of it":             {2000, []int{1000}, true},
		"all of both":           {2000, []int{400, 600}, true},
		"too large":             {2000, []int{2001}, false},
		"too large together":    {2000, []int{1000, 1001}, false},
		"nothing to be kept":    {0, []int{1}, false},
		"no bound":              {1<<63 - 1, []int{1 << 20}, true},
		"the default":           {-1, []int{httpclient.DefaultMaxBufferedBody - 1000}, true},
		"the default, exceeded": {-1, []int{httpclient.DefaultMaxBufferedBody + 1}, false},
	} {
		inBubble(t, name, func(t *testing.T) {
			below := replies(refused("0.5"), reply(http.StatusOK, "", ""))
			var options []rest.Option
			if c.limit >= 0 {
				options = append(options, rest.WithTransport(httpclient.WithBufferedBodies(c.limit, 64<<20)))
			}
			client := newClient(t, below, options...)
			var files []rest.File
			var streams []*stream
			for i, size := range c.sizes {
				streams = append(streams, &stream{Reader: strings.NewReader(strings.Repeat(fmt.Sprint(i), size))})
				files = append(files, rest.File{Content: streams[i]})
			}
			body := rest.Multipart(nil, files...)
			_, err := client.Do(t.Context(), "POST", clientMessages, body)
			if c.kept {
				require.NoError(t, err)
				require.Len(t, below.sent(), 2)
			} else {
				var failure *rest.APIError
				require.ErrorAs(t, err, &failure)
				assert.Equal(t, http.StatusTooManyRequests, failure.Status)
				assert.EqualValues(t, -1, below.only(t).ContentLength)
			}
			for _, sent := range below.sent() {
				for i, part := range partsOf(t, sent) {
					assert.Equal(t, strings.Repeat(fmt.Sprint(i), c.sizes[i]), part.content)
				}
			}
			for _, s := range streams {
				assert.Equal(t, 1, s.closed)
			}
			_, err = client.Do(t.Context(), "POST", clientMessages, body)
			require.ErrorIs(t, err, rest.ErrBody, "the stream is used up, so a second Do has nothing to send")
		})
	}
}

func TestClientLeavesAStreamThatBlocks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := fine()
		client := newClient(t, below)
		reader, writer := io.Pipe()
		body := rest.Multipart(nil, rest.File{Content: reader})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := writer.Write([]byte("begin"))
			assert.NoError(t, err)
			cancel()
		}()
		_, err := client.Do(ctx, "POST", clientMessages, body)
		require.ErrorIs(t, err, context.Canceled)
		_, err = writer.Write([]byte("end"))
		require.ErrorIs(t, err, io.ErrClosedPipe)
		_, err = client.Do(t.Context(), "POST", clientMessages, body)
		require.ErrorIs(t, err, rest.ErrBody, "the beginning of the stream is lost")
		assert.Empty(t, below.sent())

		reader, writer = io.Pipe()
		defer writer.Close()
		time.AfterFunc(time.Second, func() { assert.NoError(t, client.Close()) })
		_, err = client.Do(t.Context(), "POST", clientMessages, rest.Multipart(nil, rest.File{Content: reader}))
		require.ErrorIs(t, err, buckets.ErrClosed)
	})
}

func TestClientSendsWhatAPipeFileHolds(t *testing.T) {
	t.Parallel()
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	_, err = writer.WriteString("content")
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	below := fine()
	_, err = newClient(t, below).Do(t.Context(), "POST", clientMessages, rest.Multipart(nil, rest.File{Content: reader}))
	require.NoError(t, err)
	assert.Equal(t, "content", partsOf(t, below.only(t))[0].content)
}

// reading is a stream that records whether it was closed.
type reading struct {
	io.Reader
	closed bool
}

func (r *reading) Close() error {
	r.closed = true
	return nil
}

func TestClientClosesAStreamWhenALaterFileCannotBeRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		long := &reading{Reader: strings.NewReader("longer than is kept")}
		body := rest.Multipart(nil, rest.File{Name: "a", Content: long},
			rest.File{Name: "b", Content: iotest.ErrReader(errors.New("broken"))})
		client := rest.New("token", over(fine()), rest.WithTransport(httpclient.WithBufferedBodies(4, 64<<20)))
		defer client.Close()
		_, err := client.Do(t.Context(), http.MethodPost, "/channels/1/messages", body)
		assert.ErrorContains(t, err, "broken")
		assert.True(t, long.closed)
	})
}
