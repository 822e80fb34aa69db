package rest_test

import (
	"bytes"
	"errors"
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
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

func TestClientUploadsFilesAsDiscordTakesThem(t *testing.T) {
	t.Parallel()
	below := fine()
	body := rest.Multipart(map[string]string{"content": "<hello>"},
		rest.File{Name: "a.png", ContentType: "image/png", Content: strings.NewReader("png")},
		rest.File{Content: bytes.NewBufferString("buffer")},
		rest.File{Name: "empty"})
	require.NoError(t, newClient(t, below).DoJSON(t.Context(), "POST", clientMessages, body, nil))
	r := below.only(t)
	assert.Equal(t, []uploaded{
		{"payload_json", "", "application/json", `{"content":"<hello>"}`},
		{"files[0]", "a.png", "image/png", "png"},
		{"files[1]", "file1", "application/octet-stream", "buffer"},
		{"files[2]", "empty", "application/octet-stream", ""},
	}, partsOf(t, r))
	assert.EqualValues(t, len(r.body), r.ContentLength)
}

func TestClientUploadsWithoutAPayload(t *testing.T) {
	t.Parallel()
	below := fine()
	client := newClient(t, below)
	require.NoError(t, client.DoJSON(t.Context(), "POST", clientMessages, rest.Multipart(nil, rest.File{Name: "a"}), nil))
	require.NoError(t, client.DoJSON(t.Context(), "POST", clientMessages, rest.Multipart(1), nil))
	assert.Equal(t, []uploaded{{"files[0]", "a", "application/octet-stream", ""}}, partsOf(t, below.sent()[0]))
	assert.Equal(t, []uploaded{{"payload_json", "", "application/json", "1"}}, partsOf(t, below.sent()[1]))
}

// Without http.NoBody, net/http would take the empty body for one of unknown length.
func TestClientSendsAnEmptyBodyAsOne(t *testing.T) {
	t.Parallel()
	below := fine()
	require.NoError(t, newClient(t, below).DoJSON(t.Context(), "POST", clientMessages, rest.Bytes("text/plain", nil), nil))
	r := below.only(t)
	assert.Zero(t, r.ContentLength)
	assert.Equal(t, http.NoBody, r.Body)
	assert.Equal(t, "text/plain", r.Header.Get("Content-Type"))
}

func TestClientEscapesFileNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		`a "b" \c.png`:           `filename="a \"b\" \\c.png"`,
		"a\r\nX-Header: b":       `filename="a%0D%0AX-Header: b"`,
		"größe 👍.png":            `filename="größe 👍.png"`,
		`a"; name="payload_json`: `filename="a\"; name=\"payload_json"`,
	} {
		below := fine()
		require.NoError(t,
			newClient(t, below).DoJSON(t.Context(), "POST", clientMessages, rest.Multipart(nil, rest.File{Name: name}), nil))
		assert.Contains(t, below.only(t).body, `Content-Disposition: form-data; name="files[0]"; `+want+"\r\n")
		assert.Len(t, partsOf(t, below.only(t)), 1)
	}
}

func TestClientReportsBodiesThatCannotBeSent(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		body rest.Body
		want error
	}{
		"payload":           {rest.Multipart(make(chan int)), rest.ErrBody},
		"file name":         {rest.Multipart(nil, rest.File{Name: "a\x00b"}), rest.ErrBody},
		"content type":      {rest.Multipart(nil, rest.File{ContentType: "a\r\nb: c"}), rest.ErrBody},
		"content type, all": {rest.Bytes("a\r\nb: c", nil), rest.ErrBody},
		"value":             {rest.JSON(make(chan int)), rest.ErrBody},
		"stream":            {rest.Multipart(nil, rest.File{Content: iotest.ErrReader(broken)}), broken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			below := fine()
			_, err := newClient(t, below).Do(t.Context(), "POST", clientMessages, c.body)
			require.ErrorIs(t, err, c.want)
			assert.Contains(t, err.Error(), "POST /channels/{channel_id}/messages: ")
			assert.Empty(t, below.sent())
		})
	}
}

// badAddress cannot be encoded. Its error has the type of http.Client's errors.
type badAddress struct{}

func (badAddress) MarshalText() ([]byte, error) {
	return nil, &url.Error{Op: "parse", URL: "https://example.com", Err: errors.New("no address")}
}

func TestAnErrorOfABodyStaysOneWhateverItIsAbout(t *testing.T) {
	t.Parallel()
	below := fine()
	_, err := newClient(t, below).Do(t.Context(), "POST", clientMessages, rest.JSON(badAddress{}))
	require.ErrorIs(t, err, rest.ErrBody)
	assert.ErrorContains(t, err, "no address")
	assert.Empty(t, below.sent())
}

// Every kind of content must arrive unchanged: after a 429, and in a second request with the same body unless it is a
// stream.
func TestClientSendsBodiesAgainExactly(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("skip content"), 0o600))
	opened, err := os.Open(file)
	require.NoError(t, err)
	defer opened.Close()
	_, err = opened.Seek(5, io.SeekStart)
	require.NoError(t, err)
	half := strings.NewReader("skip content")
	_, err = io.CopyN(io.Discard, half, 5)
	require.NoError(t, err)
	upload := func(r io.Reader) rest.Body {
		return rest.Multipart(map[string]int{"a": 1}, rest.File{Content: r},
			rest.File{Content: bytes.NewReader([]byte("content"))})
	}
	none := filepath.Join(t.TempDir(), "none")
	require.NoError(t, os.WriteFile(none, nil, 0o600))
	empty, err := os.Open(none)
	require.NoError(t, err)
	defer empty.Close()
	beside := func(r io.Reader) rest.Body {
		return rest.Multipart(nil, rest.File{Content: r}, rest.File{Content: strings.NewReader("content")})
	}
	streams := map[string]bool{"stream": true, "device": true, "open device": true, "stream to close": true,
		"one byte at once": true}
	closable := &stream{Reader: strings.NewReader("content")}
	for name, body := range map[string]rest.Body{
		"JSON":      rest.JSON("content"),
		"bytes":     rest.Bytes("text/plain", []byte("content")),
		"file":      upload(opened),
		"reader at": upload(half),
		"seeker":    upload(seekOnly{strings.NewReader("content")}),
		"stream":    upload(bytes.NewBufferString("content")),
		"device":    upload(device{strings.NewReader("content")}),
		"open device": upload(struct {
			device
			io.ReaderAt
		}{device{strings.NewReader("content")}, strings.NewReader("content")}),
		"stream to close":   upload(closable),
		"one byte at once":  upload(iotest.OneByteReader(strings.NewReader("content"))),
		"empty file":        beside(empty),
		"nothing in memory": beside(strings.NewReader("")),
		"nothing left":      beside(io.NewSectionReader(strings.NewReader("skip"), 4, 0)),
		"seeker, in halves": upload(seekOnly{strings.NewReader("content" + strings.Repeat("content", 1<<16))}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				below := replies(refused("0.5"), refused("0.5"), reply(http.StatusOK, "", ""))
				client := newClient(t, below)
				_, err := client.Do(t.Context(), "POST", clientMessages, body)
				require.NoError(t, err)
				require.Len(t, below.sent(), 3)
				_, err = client.Do(t.Context(), "POST", clientMessages, body)
				if streams[name] {
					require.ErrorIs(t, err, rest.ErrBody)
				} else {
					require.NoError(t, err)
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
		})
	}
	assert.Equal(t, 1, closable.closed)
	_, err = opened.Seek(0, io.SeekStart)
	assert.NoError(t, err, "the file is not the client's to close")
}

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
