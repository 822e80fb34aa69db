package shared

import (
	"embed"
	"fmt"
	"strings"
	"time"
)

//go:embed lua
var lua embed.FS

// constants are shared with the scripts, in milliseconds there.
var constants = []struct {
	name  string
	value time.Duration
}{
	{"KEY_TIME", keyTime}, {"SESSION_TIME", sessionTime}, {"BEAT_PERIOD", beatPeriod}, {"LISTEN_PERIOD", listenPeriod},
	{"ERA_TIME", eraTime},
}

// script joins the constants, common.lua, which every script needs, and the named files.
func script(name string, files ...string) *Script {
	var source strings.Builder
	for _, c := range constants {
		fmt.Fprintf(&source, "local %s = %d\n", c.name, c.value.Milliseconds())
	}
	for _, file := range append([]string{"common.lua"}, files...) {
		text, err := lua.ReadFile("lua/" + file)
		if err != nil {
			panic(err) // cannot happen: the files are embedded
		}
		source.Write(text)
		source.WriteByte('\n')
	}
	return &Script{Name: name, Source: source.String()}
}
