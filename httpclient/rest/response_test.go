package rest_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient/rest"
)

func TestClientReturnsTheWholeResponse(t *testing.T) {
	t.Parallel()
	below := replies(reply(http.StatusCreated, "text/plain", "hello", "X-Any: thing"))
	response, err := newClient(t, below).Do(t.Context(), "POST", clientMessages, nil)
	require.NoError(t, err)
	assert.Equal(t, http.StatusCreated, response.Status)
	assert.Equal(t, "thing", response.Header.Get("X-Any"))
	assert.Equal(t, "hello", string(response.Body))
}

func TestClientEncodesAndDecodesJSON(t *testing.T) {
	t.Parallel()
	type message struct {
		ID      string `json:"id,omitempty"`
		Content string `json:"content"`
	}
	for _, contentType := range []string{
		"application/json", "application/json; charset=utf-8", "Application/JSON", "application/problem+json", "",
	} {
		below := replies(reply(http.StatusOK, contentType, `{"id":"2","content":"hi"}`))
		var out message
		require.NoError(t,
			newClient(t, below).DoJSON(t.Context(), "POST", clientMessages, message{Content: "hi <@1> & you"}, &out))
		assert.Equal(t, message{"2", "hi"}, out)
		r := below.only(t)
		assert.Equal(t, `{"content":"hi <@1> & you"}`, r.body)
		assert.Equal(t, clientJSON, r.Header.Get("Content-Type"))
		assert.EqualValues(t, len(r.body), r.ContentLength)
	}
}

func TestClientLeavesTheResultAloneWhereThereIsNone(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusNoContent, http.StatusResetContent, http.StatusNotModified} {
		out := map[string]int{"before": 1}
		below := replies(reply(status, "", ""))
		require.NoError(t, newClient(t, below).DoJSON(t.Context(), "DELETE", "/channels/1", nil, &out))
		assert.Equal(t, map[string]int{"before": 1}, out)
	}
}

func TestClientReportsSuccessesThatAreNotJSON(t *testing.T) {
	type story struct {
		contentType, body string
		notJSON           bool
	}
	inBubbles(t, map[string]story{
		"page":                       {"text/html", "<html>", true},
		"number in a text":           {"text/plain", "1", true},
		"garbage":                    {clientJSON, "{", false},
		"nothing":                    {clientJSON, "", false},
		"nothing, of no type":        {"", "", false},
		"another type than expected": {clientJSON, `"text"`, false},
		"garbage as type":            {";;", "{}", true},
	}, func(t *testing.T, c story) {
		client := newClient(t, replies(reply(http.StatusOK, c.contentType, c.body)))
		var out struct{}
		err := client.DoJSON(t.Context(), "GET", "/channels/1", nil, &out)
		decode := errorAs[*rest.DecodeError](t, err)
		assert.Equal(t, "GET /channels/{channel_id}", decode.Route)
		assert.Equal(t, c.body, string(decode.Response.Body))
		assert.Equal(t, c.notJSON, errors.Is(err, rest.ErrNotJSON))
		assert.Contains(t, err.Error(), "GET /channels/{channel_id}: response (status 200, content type ")

		assert.NoError(t, client.DoJSON(t.Context(), "GET", "/channels/1", nil, nil), "the caller has not asked for the body")
	})
}

type picky struct{}

func (picky) UnmarshalJSON(b []byte) error { return fmt.Errorf("not %s", b) }

// The error of a caller's UnmarshalJSON may quote the value, so the client's error must not contain the text of that
// error.
func TestClientLeavesOutOfAnErrorWhatATypeSaysOfAValue(t *testing.T) {
	t.Parallel()
	err := newClient(t, replies(reply(http.StatusOK, clientJSON, `"SeCrEt"`))).DoJSON(t.Context(), "GET", "/channels/1",
		nil, &picky{})
	require.ErrorAs(t, err, new(*rest.DecodeError))
	assert.ErrorContains(t, err, "a value does not fit")
	assert.NotContains(t, err.Error(), "SeCrEt")
}

func TestClientBoundsTheResponse(t *testing.T) {
	type story struct {
		size    int
		options []rest.Option
		max     int64 // 0: the response is within the bound
	}
	inBubbles(t, map[string]story{
		"as much as is allowed":       {10, []rest.Option{rest.WithMaxResponse(10)}, 0},
		"one more":                    {11, []rest.Option{rest.WithMaxResponse(10)}, 10},
		"as much as by default":       {rest.DefaultMaxResponse, nil, 0},
		"one more than by default":    {rest.DefaultMaxResponse + 1, nil, rest.DefaultMaxResponse},
		"zero stands for default":     {11, []rest.Option{rest.WithMaxResponse(0)}, 0},
		"negative stands for default": {11, []rest.Option{rest.WithMaxResponse(-1)}, 0},
		"the largest bound":           {11, []rest.Option{rest.WithMaxResponse(1<<63 - 1)}, 0},
	}, func(t *testing.T, c story) {
		client := newClient(t, replies(reply(http.StatusOK, clientJSON, strings.Repeat("x", c.size))), c.options...)
		response, err := client.Do(t.Context(), "GET", "/channels/1", nil)
		if c.max == 0 {
			require.NoError(t, err)
			assert.Len(t, response.Body, c.size)
			return
		}
		large := errorAs[*rest.ResponseTooLargeError](t, err)
		assert.Equal(t, rest.ResponseTooLargeError{Route: "GET /channels/{channel_id}", Status: 200, Max: c.max}, *large)
	})
}

func TestClientReturnsTheErrorThatEndsABody(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "{", "{}"} { // the last body is exactly as long as the client's maximum
		below := replies(func() *http.Response {
			r := reply(http.StatusOK, clientJSON, "")()
			r.Body = io.NopCloser(io.MultiReader(strings.NewReader(body), iotest.ErrReader(io.ErrUnexpectedEOF)))
			return r
		})
		_, err := newClient(t, below, rest.WithMaxResponse(2)).Do(t.Context(), "GET", "/channels/1", nil)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		assert.Contains(t, err.Error(), "GET /channels/{channel_id}: ")
	}
}

func TestClientTurnsEveryFailureIntoAnAPIErrorWithoutASecondRequest(t *testing.T) {
	t.Parallel()
	for _, status := range []int{300, 301, 400, 401, 403, 404, 405, 413, 499, 501, 505} {
		below := replies(reply(status, clientJSON, `{"code":7,"message":"no"}`))
		response, err := newClient(t, below).Do(t.Context(), "POST", clientMessages, nil)
		var failure *rest.APIError
		require.ErrorAs(t, err, &failure, "%d", status)
		assert.Nil(t, response)
		assert.Equal(t, status, failure.Status)
		assert.Equal(t, 7, failure.Code)
		assert.Equal(t, "POST /channels/{channel_id}/messages", failure.Route)
		assert.Equal(t, `{"code":7,"message":"no"}`, string(failure.Response.Body))
		assert.Len(t, below.sent(), 1)
	}
}

// The client must decode errors even if the caller has asked for an encoding.
func TestAClientReadsEncodedErrors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		encoded := func(status int, text string) func() *http.Response {
			var b bytes.Buffer
			w := gzip.NewWriter(&b)
			_, err := io.WriteString(w, text)
			require.NoError(t, err)
			require.NoError(t, w.Close())
			return reply(status, clientJSON, b.String(), "Content-Encoding: gzip")
		}
		below := replies(encoded(http.StatusAccepted, `{"code":110000,"retry_after":2}`),
			encoded(http.StatusNotFound, `{"message":"Unknown Channel","code":10003}`))
		start := time.Now()
		_, err := newClient(t, below).Do(t.Context(), http.MethodGet, "/channels/1", nil,
			rest.Header("Accept-Encoding", "gzip, deflate"))
		problem := errorAs[*rest.APIError](t, err)
		assert.Equal(t, 10003, problem.Code)
		assert.Equal(t, "Unknown Channel", problem.Message)
		assert.Equal(t, 2*time.Second, time.Since(start).Round(100*time.Millisecond))
	})
}

func TestClientFollowsRedirectsThatChangeNothing(t *testing.T) {
	type story struct {
		status                 int
		base, method, location string
		followed               bool
	}
	inBubbles(t, map[string]story{
		"path":                     {308, "", "POST", "/api/v10/channels/2/messages", true},
		"whole URL":                {307, "", "POST", "https://discord.com/api/v10/channels/2/messages", true},
		"GET":                      {301, "", "GET", "/api/v9/channels/2/messages", true},
		"POST that would be a GET": {301, "", "POST", "/api/v10/channels/2/messages", false},
		"PUT that would be a GET":  {303, "", "PUT", "/api/v10/channels/2/messages", false},
		"another host":             {307, "", "POST", "https://example.com/api/v10/channels/2/messages", false},
		"GET to another host":      {302, "", "GET", "https://example.com/api/v10/channels/2/messages", false},
		"a host below":             {307, "", "GET", "https://canary.discord.com/api/v10/channels/2/messages", false},
		"another port":             {307, "", "GET", "https://discord.com:444/api/v10/channels/2/messages", false},
		"without TLS":              {307, "", "GET", "http://discord.com/api/v10/channels/2/messages", false},
		"with TLS": {307, "http://discord.com/api/v10", "GET", "https://discord.com/api/v10/channels/2/messages",
			false},
		"nowhere":                         {304, "", "GET", "https://example.com", false},
		"another host, protocol relative": {307, "", "GET", "//example.com/api/v10/channels/2/messages", false},
	}, func(t *testing.T, c story) {
		below := replies(reply(c.status, "", "", "Location: "+c.location), reply(http.StatusOK, clientJSON, "{}"))
		client := newClient(t, below, rest.WithBaseURL(c.base))
		var in any
		want := ""
		if c.method != "GET" {
			in, want = map[string]int{"a": 1}, `{"a":1}`
		}
		err := client.DoJSON(t.Context(), c.method, clientMessages, in, nil)
		for _, r := range below.sent() {
			assert.Equal(t, "discord.com", r.URL.Host)
			assert.Equal(t, c.method, r.Method)
			assert.Equal(t, want, r.body)
			assert.Equal(t, "Bot "+clientToken, r.Header.Get("Authorization"))
		}
		if c.followed {
			require.NoError(t, err)
			assert.Len(t, below.sent(), 2)
			return
		}
		assert.Len(t, below.sent(), 1)
		if c.status == http.StatusNotModified {
			require.NoError(t, err)
			return
		}
		failure := errorAs[*rest.APIError](t, err)
		assert.Equal(t, c.status, failure.Status)
		assert.Equal(t, c.location, failure.Response.Header.Get("Location"))
	})
}

func TestClientFollowsTenRedirects(t *testing.T) {
	t.Parallel()
	below := replies(reply(http.StatusTemporaryRedirect, "", "", "Location: /api/v10/gateway"))
	_, err := newClient(t, below).Do(t.Context(), "GET", "/gateway", nil)
	require.ErrorAs(t, err, new(*rest.APIError))
	assert.Len(t, below.sent(), 11)
}
