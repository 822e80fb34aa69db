package report

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2/maybe"
)

// mostShown bounds the reasons on the page.
const mostShown = 20

//go:embed page.html
var pageText string

// pageTemplate makes a page that is self-contained: a content security policy forbids it to fetch or to run anything.
var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"oneline": oneLine,
	"add":     func(a, b int) int { return a + b },
	"caption": func(c Chart) (text struct{ Title, Summary string }) {
		text.Title, text.Summary = c.Caption()
		return text
	},
}).Parse(pageText))

// WritePage writes the report as one HTML document, without its parts.
func (r *Report) WritePage(w io.Writer) error {
	if err := pageTemplate.Execute(w, r); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// Shown returns the reasons that the page shows.
func (v Verdict) Shown() []string { return v.Reasons[:min(len(v.Reasons), mostShown)] }

// CheckFile returns an error if a page cannot be written to a path, as far as is known now. It leaves no file behind.
func CheckFile(path string) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s exists and is not a file: expected the name of a file to write", path)
	}
	file, err := os.CreateTemp(filepath.Dir(path), "report")
	if cause := new(fs.PathError); errors.As(err, &cause) {
		return fmt.Errorf("no file can be created in the directory %s: %w", filepath.Dir(path), cause.Err)
	}
	return errors.Join(err, file.Close(), os.Remove(file.Name()))
}

// WriteFile writes the page to a path. A complete page replaces an existing file, and an error leaves it unchanged.
func (r *Report) WriteFile(path string) error {
	if err := CheckFile(path); err != nil {
		return err
	}
	var page bytes.Buffer
	if err := r.WritePage(&page); err != nil {
		return err
	}
	if target, err := filepath.EvalSymlinks(path); err == nil { // replace the file, not a link to it
		path = target
	}
	return maybe.WriteFile(path, page.Bytes(), 0o666)
}
