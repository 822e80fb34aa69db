//go:build !linux

package redistest

import "os/exec"

// dieWithParent does nothing: only Close ends the process here.
func dieWithParent(*exec.Cmd) {}
