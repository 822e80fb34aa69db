//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package statefile

import (
	"errors"
	"io"
)

func lock(string) (io.Closer, error) { return nil, errors.ErrUnsupported }

func save(string, []byte) error { return errors.ErrUnsupported }

func tidy(string) {}
