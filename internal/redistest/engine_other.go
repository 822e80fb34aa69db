//go:build !linux

package redistest

import "os/exec"

// dieWithParent does nothing: on this system only Close ends the server.
func dieWithParent(*exec.Cmd) {}
