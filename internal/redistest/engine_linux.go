package redistest

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes the system kill the command when this process dies for any reason.
func dieWithParent(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
