package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"os"
)

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

// CheckFile returns an error if a page cannot be written to a path. It creates the file.
func CheckFile(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	return file.Close()
}

// WriteFile writes the page to a path. It does not touch the file if the page cannot be made.
func (r *Report) WriteFile(path string) error {
	var page bytes.Buffer
	if err := r.WritePage(&page); err != nil {
		return err
	}
	return os.WriteFile(path, page.Bytes(), 0o666)
}
