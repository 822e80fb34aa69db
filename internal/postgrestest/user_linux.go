package postgrestest

import (
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// other returns the user under which the server must run if the test runs as root, because PostgreSQL refuses to run as
// root. It returns nil if the server can run as the test's user.
func other() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, wrongUser := strconv.ParseUint(u.Uid, 10, 32)
		gid, wrongGroup := strconv.ParseUint(u.Gid, 10, 32)
		if wrongUser == nil && wrongGroup == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	return nil
}

// giveAway makes the server's user the owner of a directory.
func giveAway(directory string) error {
	if u := other(); u != nil {
		return os.Chown(directory, int(u.Uid), int(u.Gid))
	}
	return nil
}

// unprivileged runs a command as the server's user. The system kills the command when this process dies for any reason.
func unprivileged(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Credential: other(), Pdeathsig: syscall.SIGKILL}
}
