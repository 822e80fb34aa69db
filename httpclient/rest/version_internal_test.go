package rest

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
)

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
