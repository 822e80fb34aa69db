package routes_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ratelight/ratelight/routes"
)

func FuzzMatch(f *testing.F) {
	for _, c := range matchCases {
		f.Add(c.method, c.path)
	}
	for _, path := range []string{
		"", "/", "//", "/api/v10", "/webhooks/1/%2e%2e/x", "/channels/%2F/messages", "https://discord.com", "/%C3%28",
		"/{id}", "/webhooks//t", "/interactions/1/t/callback/../x", "http://[::1]/v10/api", "/users/@me?x#y",
		"/a;b,c!(d)*'e\\f",
	} {
		f.Add("DELETE", path)
		f.Add("PROPFIND", path)
	}
	now := time.Now()
	f.Fuzz(func(t *testing.T, method, path string) {
		compiled, err := routes.MatchAt(method, path, now)
		if err != nil {
			if !compiled.IsZero() {
				t.Fatalf("a route was returned with the error %v", err)
			}
			return
		}
		again, err := routes.MatchAt(compiled.Method(), compiled.Path(), now)
		if err != nil || again != compiled {
			t.Fatalf("%q became %q: %v", compiled.Path(), again.Path(), err)
		}
		if compiled.Route().IsZero() || compiled.Path()[0] != '/' || len(compiled.Path()) > 8192 {
			t.Fatalf("bad path %q", compiled.Path())
		}
		if strings.Count(compiled.Route().Template(), "/") > 12 {
			t.Fatalf("template too long: %s", compiled.Route())
		}
		id, token := compiled.Major().ID, compiled.Major().Token
		if !strings.Contains(compiled.Path(), "/"+id) || token != "" && !strings.Contains(compiled.Path(), "/"+id+"/"+token) {
			t.Fatalf("major %q %q is no part of %q", id, token, compiled.Path())
		}
		if compiled.Route().TokenInPath() != (token != "") {
			t.Fatalf("%s: token %q", compiled.Route(), token)
		}
		if len(token) > 24 && strings.Contains(fmt.Sprintf("%v %+v %#v", compiled, compiled, compiled), token) {
			t.Fatal("the token is printed")
		}
	})
}
