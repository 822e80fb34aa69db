package rest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/httpclient/internal/redact"
	"github.com/ratelight/ratelight/routes"
)

func FuzzAPIError(f *testing.F) {
	const token = "WeBhOoK-SeCrEt_0123456789"
	route, err := routes.Match("POST", "/webhooks/1/"+token)
	if err != nil {
		f.Fatal(err)
	}
	call := &call{route: route, secrets: redact.Secrets(&url.URL{Path: route.Path()})}
	for _, body := range []string{
		``, `{}`, `[]`, `null`, `<html>`, `{"message":"m","code":10008}`, `{"retry_after":1e400,"code":110001}`,
		`{"code":50035,"message":"m","errors":{"embeds":{"0":{"title":{"_errors":[{"code":"A","message":"b"}]}}}}}`,
		`{"errors":[["a"],{"message":"b","code":7},{"c":{"_errors":[1,null,"d"]}}]}`, `{"error":"a","error_description":"b"}`,
		`{"_misc":["WeBhOoK-SeCrEt_0123456789"],"name":["a","b"]}`, "{\"message\":\"\xff\\u2028\\n\"}",
		`{"errors":` + strings.Repeat(`{"a":`, 50) + `["b"]` + strings.Repeat(`}`, 51),
		`{"errors":` + strings.Repeat(`[`, 50) + strings.Repeat(`]`, 50) + `}`,
	} {
		for _, status := range []int{202, 400, 429, 502, 999} {
			f.Add(status, "application/json", body)
		}
	}
	f.Fuzz(func(t *testing.T, status int, contentType, body string) {
		r := &Response{Status: status, Header: http.Header{"Content-Type": {contentType}}, Body: []byte(body),
			route: call.name()}
		e := call.newAPIError(r)
		if len(e.Errors) > maxFieldErrors {
			t.Fatalf("%d field errors", len(e.Errors))
		}
		// A text that was cut ends with an ellipsis. An ellipsis also replaces a secret.
		const longest = maxText + len("…")
		texts := []string{e.Message}
		for _, field := range e.Errors {
			texts = append(texts, field.Path, field.Code, field.Message)
		}
		for _, text := range texts {
			if len(text) > longest || strings.Contains(text, token) || !utf8.ValidString(text) {
				t.Fatalf("%d bytes: %q", len(text), text)
			}
		}
		text := e.Error()
		long := len(text) > 1000+(2+3*shownErrors)*(longest+10)
		if long || strings.ContainsAny(text, "\r\n") || strings.Contains(text, token) {
			t.Fatalf("%d bytes: %q", len(text), text)
		}
		if wait, ok := r.unready(); ok && (wait <= 0 || status != http.StatusAccepted || !json.Valid([]byte(body))) {
			t.Fatalf("wait of %v for %q", wait, body)
		}
		var out any
		if err := r.decode(&out); err != nil && len(err.Error()) > 1000+4*longest {
			t.Fatalf("%d bytes: %v", len(err.Error()), err)
		}
	})
}

func TestVersionIsThatOfTheModuleInTheProgram(t *testing.T) {
	ours := func(version string) debug.Module { return debug.Module{Path: project, Version: version} }
	other := debug.Module{Path: "example.com/bot", Version: "v7.0.0"}
	released, local := ours("v0.3.1"), ours("(devel)")
	for want, build := range map[string]*debug.BuildInfo{
		"0.3.1":    {Main: other, Deps: []*debug.Module{{Path: "example.com/a", Version: "v1.0.0"}, &released}},
		"0.2.0":    {Main: ours("v0.2.0+dirty")},
		unreleased: {Main: other, Deps: []*debug.Module{&local}},
	} {
		assert.Equal(t, want, versionIn(build))
	}
	assert.Equal(t, unreleased, versionIn(&debug.BuildInfo{Main: other}))
}
