package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/rest"
)

// uploaded is one part of a multipart body.
type uploaded struct{ field, name, contentType, content string }

// partsOf decodes the parts of a multipart body.
func partsOf(t *testing.T, r arrived) []uploaded {
	t.Helper()
	kind, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	require.NoError(t, err)
	require.Equal(t, "multipart/form-data", kind)
	reader := multipart.NewReader(strings.NewReader(r.body), parameters["boundary"])
	var parts []uploaded
	for {
		part, err := reader.NextRawPart()
		if err == io.EOF {
			return parts
		}
		require.NoError(t, err)
		content, err := io.ReadAll(part)
		require.NoError(t, err)
		_, disposition, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
		require.NoError(t, err)
		parts = append(parts,
			uploaded{part.FormName(), disposition["filename"], part.Header.Get("Content-Type"), string(content)})
	}
}

// seekOnly hides all methods except those of io.ReadSeeker.
type seekOnly struct{ io.ReadSeeker }

// stream hides all methods except Read and Close.
type stream struct {
	io.Reader
	closed int
}

func (s *stream) Close() error {
	s.closed++
	return nil
}

// device has no size and no position, like a terminal or a file in /proc.
type device struct{ io.Reader }

func (device) Seek(int64, int) (int64, error) { return 0, nil }

func TestClientSendsOneBodyManyTimesAtOnce(t *testing.T) {
	t.Parallel()
	const content = "0123456789"
	body := rest.Multipart(nil, rest.File{Content: seekOnly{strings.NewReader(strings.Repeat(content, 1000))}},
		rest.File{Content: strings.NewReader(content)}, rest.File{})
	below := fine()
	client := newClient(t, below)
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			_, err := client.Do(t.Context(), "POST", clientMessages, body)
			assert.NoError(t, err)
		})
	}
	group.Wait()
	require.Len(t, below.sent(), 10)
	for _, r := range below.sent() {
		require.Equal(t, below.sent()[0].body, r.body)
	}
	assert.Len(t, partsOf(t, below.sent()[0]), 3)
}

func TestClientUploadsFilesAsDiscordTakesThem(t *testing.T) {
	type story struct {
		body rest.Body
		want []uploaded
	}
	const stream = "application/octet-stream"
	inBubbles(t, map[string]story{
		"several": {
			rest.Multipart(map[string]string{"content": "<hello>"},
				rest.File{Name: "a.png", ContentType: "image/png", Content: strings.NewReader("png")},
				rest.File{Content: bytes.NewBufferString("buffer")}, rest.File{Name: "empty"}),
			[]uploaded{
				{"payload_json", "", "application/json", `{"content":"<hello>"}`}, {"files[0]", "a.png", "image/png", "png"},
				{"files[1]", "file1", stream, "buffer"}, {"files[2]", "empty", stream, ""},
			},
		},
		"no payload": {rest.Multipart(nil, rest.File{Name: "a"}), []uploaded{{"files[0]", "a", stream, ""}}},
		"no file":    {rest.Multipart(1), []uploaded{{"payload_json", "", "application/json", "1"}}},
	}, func(t *testing.T, c story) {
		below := fine()
		require.NoError(t, newClient(t, below).DoJSON(t.Context(), "POST", clientMessages, c.body, nil))
		r := below.only(t)
		assert.Equal(t, c.want, partsOf(t, r))
		assert.EqualValues(t, len(r.body), r.ContentLength)
	})
}

// badAddress cannot be encoded as JSON. The error has the same type as the errors of http.Client.
type badAddress struct{}

func (badAddress) MarshalText() ([]byte, error) {
	return nil, &url.Error{Op: "parse", URL: "https://example.com", Err: errors.New("no address")}
}

func TestClientReportsBodiesThatCannotBeSent(t *testing.T) {
	broken, ofType := errors.New("broken"), "unsupported type"
	type story struct {
		body any
		want error
		text string
	}
	inBubbles(t, map[string]story{
		"payload":           {rest.Multipart(make(chan int)), rest.ErrBody, ofType},
		"file name":         {rest.Multipart(nil, rest.File{Name: "a\x00b"}), rest.ErrBody, ""},
		"content type":      {rest.Multipart(nil, rest.File{ContentType: "a\r\nb: c"}), rest.ErrBody, ""},
		"content type, all": {rest.Bytes("a\r\nb: c", nil), rest.ErrBody, ""},
		"value":             {rest.JSON(make(chan int)), rest.ErrBody, ofType},
		"value, given":      {map[string]any{"a": func() {}}, rest.ErrBody, ofType},
		"its own error":     {rest.JSON(badAddress{}), rest.ErrBody, "no address"},
		"stream":            {rest.Multipart(nil, rest.File{Content: iotest.ErrReader(broken)}), broken, ""},
	}, func(t *testing.T, c story) {
		below := fine()
		err := newClient(t, below).DoJSON(t.Context(), "POST", clientMessages, c.body, nil)
		require.ErrorIs(t, err, c.want)
		assert.ErrorContains(t, err, "POST /channels/{channel_id}/messages: ")
		assert.ErrorContains(t, err, c.text)
		assert.Empty(t, below.sent())
		if c.text == ofType {
			assert.ErrorAs(t, err, new(*json.UnsupportedTypeError))
		}
	})
}

// fileOf returns a file that contains the text of skipped followed by the text of content. The text of skipped has
// already been read from the file.
func fileOf(t *testing.T, content, skipped string) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(skipped+content), 0o600))
	file, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, file.Close(), "the client must not close the caller's file") })
	_, err = file.Seek(int64(len(skipped)), io.SeekStart)
	require.NoError(t, err)
	return file
}

// Every kind of content must arrive unchanged when the request is sent again after a 429. All kinds except streams must
// also arrive unchanged in a second request with the same body.
func TestClientSendsBodiesAgainExactly(t *testing.T) {
	text := func() *strings.Reader { return strings.NewReader("content") }
	half := strings.NewReader("skip content")
	_, err := io.CopyN(io.Discard, half, 5)
	require.NoError(t, err)
	upload := func(r io.Reader) rest.Body {
		return rest.Multipart(map[string]int{"a": 1}, rest.File{Content: r}, rest.File{Content: text()})
	}
	nothing := func(r io.Reader) rest.Body {
		return rest.Multipart(nil, rest.File{Content: r}, rest.File{Content: text()})
	}
	closable := &stream{Reader: text()}
	type story struct {
		body rest.Body
		once bool
	}
	inBubbles(t, map[string]story{
		"JSON":      {rest.JSON("content"), false},
		"bytes":     {rest.Bytes("text/plain", []byte("content")), false},
		"file":      {upload(fileOf(t, "content", "skip ")), false},
		"reader at": {upload(half), false},
		"seeker":    {upload(seekOnly{text()}), false},
		"stream":    {upload(bytes.NewBufferString("content")), true},
		"device":    {upload(device{text()}), true},
		"open device": {upload(struct {
			device
			io.ReaderAt
		}{device{text()}, text()}), true},
		"stream to close":   {upload(closable), true},
		"one byte at once":  {upload(iotest.OneByteReader(text())), true},
		"empty file":        {nothing(fileOf(t, "", "")), false},
		"nothing in memory": {nothing(strings.NewReader("")), false},
		"nothing left":      {nothing(io.NewSectionReader(strings.NewReader("skip"), 4, 0)), false},
		"seeker, in halves": {upload(seekOnly{strings.NewReader(strings.Repeat("content", 1<<16))}), false},
	}, func(t *testing.T, c story) {
		below := replies(refused("0.5"), refused("0.5"), reply(http.StatusOK, "", ""))
		client := newClient(t, below)
		require.NoError(t, client.DoJSON(t.Context(), "POST", clientMessages, c.body, nil))
		require.Len(t, below.sent(), 3)
		if again := client.DoJSON(t.Context(), "POST", clientMessages, c.body, nil); c.once {
			require.ErrorIs(t, again, rest.ErrBody)
		} else {
			require.NoError(t, again)
			require.Len(t, below.sent(), 4)
		}
		for _, r := range below.sent() {
			assert.Equal(t, below.sent()[0].body, r.body)
			assert.Contains(t, r.body, "content")
			if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/") {
				assert.Contains(t, partsOf(t, r)[1].content, "content")
			}
			assert.NotContains(t, r.body, "skip")
			assert.EqualValues(t, len(r.body), r.ContentLength)
		}
	})
	t.Cleanup(func() { assert.Equal(t, 1, closable.closed) })
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

func TestClientClosesAStreamWhenALaterFileCannotBeRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		long := &stream{Reader: strings.NewReader("longer than is kept")}
		body := rest.Multipart(nil, rest.File{Name: "a", Content: long},
			rest.File{Name: "b", Content: iotest.ErrReader(errors.New("broken"))})
		client := rest.New("token", over(fine()), rest.WithTransport(httpclient.WithBufferedBodies(4, 64<<20)))
		defer client.Close()
		_, err := client.Do(t.Context(), http.MethodPost, "/channels/1/messages", body)
		assert.ErrorContains(t, err, "broken")
		assert.Equal(t, 1, long.closed)
	})
}

func TestClientEscapesFileNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		`a "b" \c.png`:           `filename="a \"b\" \\c.png"`,
		"a\r\nX-Header: b":       `filename="a%0D%0AX-Header: b"`,
		"größe 👍.png":            `filename="größe 👍.png"`,
		`a"; name="payload_json`: `filename="a\"; name=\"payload_json"`,
	} {
		r := sent(t, nil, "POST", clientMessages, rest.Multipart(nil, rest.File{Name: name}))
		assert.Contains(t, r.body, `Content-Disposition: form-data; name="files[0]"; `+want+"\r\n")
		assert.Len(t, partsOf(t, r), 1)
	}
}

// A stream must be sent again after a 429 if the transport keeps the whole body. The body is a few hundred bytes longer
// than its streams.
func TestClientSendsStreamsAgainThatTheTransportKeeps(t *testing.T) {
	type story struct {
		limit int64
		sizes []int
		kept  bool
	}
	inBubbles(t, map[string]story{
		"all of both":           {2000, []int{400, 600}, true},
		"too large together":    {2000, []int{1000, 1001}, false},
		"nothing to be kept":    {0, []int{1}, false},
		"no bound":              {1<<63 - 1, []int{1 << 20}, true},
		"the default":           {-1, []int{httpclient.DefaultMaxBufferedBody - 1000}, true},
		"the default, exceeded": {-1, []int{httpclient.DefaultMaxBufferedBody + 1}, false},
	}, func(t *testing.T, c story) {
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
			assert.Equal(t, http.StatusTooManyRequests, errorAs[*rest.APIError](t, err).Status)
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
		require.ErrorIs(t, err, rest.ErrBody, "the streams are used up, so a second Do has nothing to send")
	})
}
