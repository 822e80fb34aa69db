package httpclient_test

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
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
)

func TestClientKeepsAsMuchOfStreamsAsTheOptionSays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit int64
		sizes []int
		once  bool
	}{
		"all of it":             {10, []int{10}, false},
		"all of both":           {10, []int{4, 6}, false},
		"too large":             {10, []int{11}, true},
		"too large together":    {10, []int{5, 6}, true},
		"nothing to be kept":    {0, []int{1}, true},
		"nothing, of nothing":   {0, []int{0}, false},
		"no bound":              {1<<63 - 1, []int{1 << 20}, false},
		"the default":           {-1, []int{httpclient.DefaultMaxReplay}, false},
		"the default, exceeded": {-1, []int{httpclient.DefaultMaxReplay + 1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				below := replies(refused("0.5"), reply(http.StatusOK, "", ""))
				var options []httpclient.Option
				if c.limit >= 0 {
					options = append(options, httpclient.WithMaxReplay(c.limit))
				}
				client := newClient(t, below, options...)
				var files []httpclient.File
				var streams []*stream
				for i, size := range c.sizes {
					streams = append(streams, &stream{Reader: strings.NewReader(strings.Repeat(fmt.Sprint(i), size))})
					files = append(files, httpclient.File{Content: streams[i]})
				}
				body := httpclient.Multipart(nil, files...)
				_, err := client.Do(t.Context(), "POST", clientMessages, body)
				for i, part := range partsOf(t, below.sent()[0]) {
					assert.Equal(t, strings.Repeat(fmt.Sprint(i), c.sizes[i]), part.content)
				}
				for _, s := range streams {
					assert.Equal(t, 1, s.closed)
				}
				if !c.once {
					require.NoError(t, err)
					assert.Len(t, below.sent(), 2)
					return
				}
				var failure *httpclient.APIError
				require.ErrorAs(t, err, &failure)
				assert.Equal(t, http.StatusTooManyRequests, failure.Status)
				assert.EqualValues(t, -1, below.only(t).ContentLength)
				_, err = client.Do(t.Context(), "POST", clientMessages, body)
				require.ErrorIs(t, err, httpclient.ErrBody)
				assert.Len(t, below.sent(), 1)
			})
		})
	}
}

func TestClientLeavesAStreamThatBlocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		below := fine()
		client := newClient(t, below)
		reader, writer := io.Pipe()
		body := httpclient.Multipart(nil, httpclient.File{Content: reader})
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
		require.ErrorIs(t, err, httpclient.ErrBody, "its beginning is lost")
		assert.Empty(t, below.sent())

		reader, writer = io.Pipe()
		defer writer.Close()
		time.AfterFunc(time.Second, func() { assert.NoError(t, client.Close()) })
		_, err = client.Do(t.Context(), "POST", clientMessages, httpclient.Multipart(nil, httpclient.File{Content: reader}))
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
	_, err = newClient(t, below).Do(t.Context(), "POST", clientMessages, httpclient.Multipart(nil, httpclient.File{Content: reader}))
	require.NoError(t, err)
	assert.Equal(t, "content", partsOf(t, below.only(t))[0].content)
}

// reading is a stream that says when it was closed.
type reading struct {
	io.Reader
	closed bool
}

func (r *reading) Close() error {
	r.closed = true
	return nil
}

func TestClientClosesAStreamWhenALaterFileCannotBeRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		long := &reading{Reader: strings.NewReader("longer than is kept")}
		body := httpclient.Multipart(nil, httpclient.File{Name: "a", Content: long},
			httpclient.File{Name: "b", Content: iotest.ErrReader(errors.New("broken"))})
		client := httpclient.New("token", httpclient.WithBase(newScript(answer(http.StatusOK, "{}"))), httpclient.WithMaxReplay(4))
		defer client.Close()
		_, err := client.Do(t.Context(), http.MethodPost, "/channels/1/messages", body)
		assert.ErrorContains(t, err, "broken")
		assert.True(t, long.closed)
	})
}

func TestClientsWaitForAStreamEndsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reader, writer := io.Pipe()
		body := httpclient.Multipart(nil, httpclient.File{Name: "a", Content: reader})
		client := httpclient.New("token", httpclient.WithBase(newScript(answer(http.StatusOK, "{}"))))
		first := make(chan error)
		go func() {
			_, err := client.Do(t.Context(), http.MethodPost, "/channels/1/messages", body)
			first <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := client.Do(ctx, http.MethodPost, "/channels/1/messages", body)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(start))
		require.NoError(t, client.Close())
		assert.Error(t, <-first)
		writer.Close()
	})
}
