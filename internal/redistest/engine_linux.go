package redistest

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the system kill the process when this one dies, however that comes.
func dieWithParent(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
