package shared

import (
	"embed"
	"strings"
)

//go:embed lua
var lua embed.FS

// script puts a script together of the files named, after common.lua, which is the first part of all.
func script(name string, files ...string) *Script {
	var source strings.Builder
	for _, file := range append([]string{"common.lua"}, files...) {
		text, err := lua.ReadFile("lua/" + file)
		if err != nil {
			panic(err) // it is part of the program
		}
		source.Write(text)
		source.WriteByte('\n')
	}
	return &Script{Name: name, Source: source.String()}
}
