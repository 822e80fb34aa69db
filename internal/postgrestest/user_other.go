//go:build !linux

package postgrestest

import "os/exec"

// giveAway does nothing: the server runs as the test's user.
func giveAway(string) error { return nil }

// unprivileged does nothing: on this system only the end of the test ends the server.
func unprivileged(*exec.Cmd) {}
