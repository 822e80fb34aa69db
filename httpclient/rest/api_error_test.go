package rest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient/rest"
)

// clientFailure returns the error that a client returns for an error response.
func clientFailure(t *testing.T, status int, contentType, body string) *rest.APIError {
	t.Helper()
	_, err := newClient(t, replies(reply(status, contentType, body))).Do(t.Context(), "POST", clientMessages, nil)
	failure := errorAs[*rest.APIError](t, err)
	return failure
}

func TestClientFlattensFieldErrors(t *testing.T) {
	const long = `{"_errors":[{"code":"BASE_TYPE_MAX_LENGTH","message":"Too long."}]}`
	type fields = []rest.FieldError
	type story struct {
		errors string
		want   fields
	}
	inBubbles(t, map[string]story{
		"a field":           {`{"content":` + long + `}`, fields{{"content", "BASE_TYPE_MAX_LENGTH", "Too long."}}},
		"the whole request": {long, fields{{"", "BASE_TYPE_MAX_LENGTH", "Too long."}}},
		"two for one field": {
			`{"a":{"_errors":[{"code":"A","message":"1"},{"code":"B","message":"2"}]}}`,
			fields{{"a", "A", "1"}, {"a", "B", "2"}},
		},
		"indexes": {
			`{"embeds":{"0":{"fields":{"3":{"name":` + long + `}}}}}`,
			fields{{"embeds.0.fields.3.name", "BASE_TYPE_MAX_LENGTH", "Too long."}},
		},
		"in order": {
			`{"b":{"_errors":["5"]},"10":{"_errors":["3"]},"a":{"z":{"_errors":["4"]}},"2":{"_errors":["2"]},"_errors":["1"]}`,
			fields{{"", "", "1"}, {"2", "", "2"}, {"10", "", "3"}, {"a.z", "", "4"}, {"b", "", "5"}},
		},
		"own and inner errors": {
			`{"a":{"_errors":[{"code":"A","message":"1"}],"b":` + long + `}}`,
			fields{{"a", "A", "1"}, {"a.b", "BASE_TYPE_MAX_LENGTH", "Too long."}},
		},
		"strings":  {`{"name":["This field is required"]}`, fields{{"name", "", "This field is required"}}},
		"a string": {`{"name":"bad"}`, fields{{"name", "", "bad"}}},
		"a list": {
			`[{"code":1,"message":"bad"},{"title":` + long + `}]`,
			fields{{"", "1", "bad"}, {"1.title", "BASE_TYPE_MAX_LENGTH", "Too long."}},
		},
		"no code":             {`{"a":{"_errors":[{"message":"bad"}]}}`, fields{{"a", "", "bad"}}},
		"numbers and nothing": {`{"a":1,"b":null,"c":{},"d":[],"e":true,"f":{"_errors":7}}`, nil},
		"null":                {`null`, nil},
	}, func(t *testing.T, c story) {
		failure := clientFailure(t, 400, clientJSON, `{"code":50035,"message":"Invalid Form Body","errors":`+c.errors+`}`)
		assert.Equal(t, c.want, failure.Errors)
		assert.Equal(t, 50035, failure.Code)
		assert.Equal(t, "Invalid Form Body", failure.Message)
	})
}

func TestClientMakesSomethingOfEveryErrorBody(t *testing.T) {
	type story struct {
		status            int
		contentType, body string
		code              int
		message           string
		errors            int
	}
	inBubbles(t, map[string]story{
		"Discord's":           {404, clientJSON, `{"message":"Unknown Message","code":10008}`, 10008, "Unknown Message", 0},
		"no content type":     {404, "", ` {"message":"Unknown Message","code":10008}`, 10008, "Unknown Message", 0},
		"no code":             {405, clientJSON, `{"message":"405: Method Not Allowed"}`, 0, "405: Method Not Allowed", 0},
		"code as a string":    {400, clientJSON, `{"message":"m","code":"30034"}`, 30034, "m", 0},
		"nonsense as code":    {400, clientJSON, `{"message":"m","code":{}}`, 0, "m", 0},
		"large code":          {400, clientJSON, `{"message":"m","code":1e300}`, 0, "m", 0},
		"negative code":       {400, clientJSON, `{"message":"m","code":-1}`, 0, "m", 0},
		"nonsense as message": {400, clientJSON, `{"message":["m"],"code":3}`, 3, "Bad Request", 0},
		"OAuth2": {
			401, clientJSON, `{"error":"invalid_client","error_description":"bad secret"}`, 0, "invalid_client: bad secret", 0,
		},
		"OAuth2, short":             {401, clientJSON, `{"error":"invalid_client"}`, 0, "invalid_client", 0},
		"nothing but fields":        {400, clientJSON, `{"_misc":["Bad."],"name":["Short.","Odd."]}`, 0, "Bad Request", 3},
		"empty":                     {502, "", ``, 0, "Bad Gateway", 0},
		"empty object":              {500, clientJSON, `{}`, 0, "Internal Server Error", 0},
		"page":                      {502, "text/html", `<html><title>502</title></html>`, 0, "Bad Gateway", 0},
		"page that says it is JSON": {503, clientJSON, `<html>`, 0, "Service Unavailable", 0},
		"unknown status":            {524, "text/html", `<html>`, 0, "", 0},
		"list":                      {400, clientJSON, `["a"]`, 0, "Bad Request", 0},
		"string":                    {400, clientJSON, `"a"`, 0, "Bad Request", 0},
		"cut off":                   {400, clientJSON, `{"message":"m","code":1`, 0, "Bad Request", 0},
		"too large": {400, clientJSON, `{"message":"m","a":"` + strings.Repeat("x", 1<<20) + `"}`,
			0, "Bad Request", 0},
		"redirect": {
			302, "", ``, 0, "the redirect was not followed, because it leads to another host or method: see WithBaseURL", 0,
		},
	}, func(t *testing.T, c story) {
		failure := clientFailure(t, c.status, c.contentType, c.body)
		assert.Equal(t, c.status, failure.Status)
		assert.Equal(t, c.code, failure.Code)
		assert.Equal(t, c.message, failure.Message)
		assert.Len(t, failure.Errors, c.errors)
		assert.Equal(t, c.body, string(failure.Response.Body))
	})
}

func TestClientErrorsReadAsOneLine(t *testing.T) {
	const failed = "POST /channels/{channel_id}/messages: 400 Bad Request"
	nested := `{"message":"Invalid","code":50035,"errors":` +
		`{"a":{"_errors":[{"code":"X","message":"bad\n"}]},"_errors":["all"]}}`
	for body, want := range map[string]string{
		``:                                     failed,
		`{"message":"Unknown","code":10008}`:   failed + ": Unknown (code 10008)",
		`{"message":"a\r\nb\u2028c","code":1}`: failed + ": a  b c (code 1)",
		nested:                                 failed + ": Invalid (code 50035); all; a: bad  (X)",
		`{"message":"Invalid","errors":["1","2","3","4","5","6","7"]}`: failed + ": Invalid; 1; 2; 3; 4; 5; and 2 more",
	} {
		assert.Equal(t, want, clientFailure(t, http.StatusBadRequest, clientJSON, body).Error())
	}
	assert.Equal(t, "POST /channels/{channel_id}/messages: 524", clientFailure(t, 524, "", "").Error())
}

func TestClientBoundsWhatItTakesOverFromErrors(t *testing.T) {
	t.Parallel()
	long := "x" + strings.Repeat("ü", 1000)
	failure := clientFailure(t, 400, clientJSON,
		`{"message":"`+long+`","errors":{"`+long+`":["`+long+`"],"x":[`+strings.Repeat(`"e",`, 999)+`"e"]}}`)
	assert.Len(t, failure.Errors, 100)
	for _, text := range []string{failure.Message, failure.Errors[99].Path, failure.Errors[99].Message} {
		assert.LessOrEqual(t, len(text), 520)
		assert.True(t, utf8.ValidString(text), "a character is cut in two")
		assert.True(t, strings.HasPrefix(long+"…", strings.TrimSuffix(text, "…")) || len(text) == 1, text)
	}
	assert.Less(t, len(failure.Error()), 5000)

	secret := strings.Repeat("x", 500) + clientToken // the cut at 512 bytes is in the middle of the token
	cut := clientFailure(t, 400, clientJSON,
		`{"message":"`+secret+`","errors":{"`+secret+`":[{"code":"`+secret+`","message":"`+secret+`"}]}}`)
	require.Len(t, cut.Errors, 1)
	for _, text := range []string{cut.Message, cut.Errors[0].Path, cut.Errors[0].Code, cut.Errors[0].Message} {
		assert.Equal(t, secret[:500]+"…", text)
	}

	deep := clientFailure(t, 400, clientJSON, fmt.Sprintf(`{"message":"m","errors":%s{"_errors":["e"]}%s}`,
		strings.Repeat(`{"a":`, 5000), strings.Repeat(`}`, 5000)))
	assert.Empty(t, deep.Errors)
	assert.Equal(t, "m", deep.Message)
}
