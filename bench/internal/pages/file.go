package pages

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// CheckFile reports why a report could not be written to a path, as far as that can be told beforehand. It leaves nothing
// behind, and what is there already as it is.
func CheckFile(path string) error {
	path, err := destination(path)
	if err != nil {
		return err
	}
	file, err := beside(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// WriteFile writes the page to a path. A file that is there already is replaced when the new one is complete, and stays as
// it is if there is an error.
func (p Page) WriteFile(path string) error {
	path, err := destination(path)
	if err != nil {
		return err
	}
	file, err := beside(path)
	if err != nil {
		return err
	}
	err = errors.Join(p.Write(file), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}

// destination follows links, so that they stay, and refuses what is there and is no file.
func destination(path string) (string, error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return path, nil
	}
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s exists and is not a file: expected the name of a file to write", path)
	}
	return filepath.EvalSymlinks(path)
}

// beside creates a temporary file in the directory of a path.
func beside(path string) (*os.File, error) {
	name := fmt.Sprintf("%s.%d.tmp", path, os.Getpid())
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	var cause *fs.PathError
	if errors.As(err, &cause) {
		return nil, fmt.Errorf("no file can be created in the directory %s: %w", filepath.Dir(path), cause.Err)
	}
	return file, err
}
