package redistest

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes the system kill the process when this one dies for any reason.
func dieWithParent(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
