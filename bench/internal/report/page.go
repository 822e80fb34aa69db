package report

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2/maybe"
)

const (
	mostReasons = 5   // reasons shown at once; others are folded
	mostListed  = 100 // reasons on the page, with the folded ones
	longestText = 300 // characters of a text that came from a server or the network
)

// section is the report, or one of its parts, as the page shows it.
type section struct {
	*Report
	ID      string
	Tables  []Table
	Figures []figure
}

func newSection(r *Report) section {
	s := section{Report: r, ID: cmp.Or(r.Name, "run"), Tables: r.Tables}
	log := cmp.Or(r.Log, new(Log))
	log.mu.Lock() // a simulator that is closed may still write to the log
	defer log.mu.Unlock()
	for _, chart := range r.Charts {
		if len(chart.Series) > 0 {
			s.Figures = append(s.Figures, newFigure(chart, log.Lasted, s.ID))
		}
	}
	if len(log.Passages) > 0 {
		s.Tables = slices.Concat(s.Tables, []Table{log.refused()})
		s.Figures = append(s.Figures, log.figures(s.ID)...)
	}
	return s
}

// page is the data of the template. The page is self-contained: styles, scripts and data are inside it, and a content
// security policy forbids it to fetch anything. uPlot draws the charts, see uplot/README.md.
type page struct {
	*Report
	Made     time.Time
	Whole    section
	Overview Table
	Sections []section // of the parts, folded
}

// WritePage writes the report as one HTML document.
func (r *Report) WritePage(w io.Writer) error {
	p := page{Report: r, Made: time.Now(), Whole: newSection(r)}
	if len(r.Parts) == 1 {
		p.Whole = newSection(r.Parts[0])
	} else if len(r.Parts) > 0 {
		p.Overview = r.overview()
		for _, part := range r.Parts {
			p.Sections = append(p.Sections, newSection(part))
		}
	}
	if err := pageTemplate.Execute(w, p); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

//go:embed page.html report.css report.js uplot
var files embed.FS

var pageTemplate = template.Must(template.New("page.html").Funcs(template.FuncMap{
	"style":   func() template.CSS { return template.CSS(concat("uplot/uPlot.min.css", "report.css")) },
	"script":  func() template.JS { return template.JS(concat("uplot/uPlot.iife.min.js", "report.js")) },
	"licence": func() string { return concat("uplot/LICENSE") },
	"short":   short,
	"oneline": oneLine,
	"capital": capital,
	"percent": func(part float64) string { return fmt.Sprintf("%.4g", 100*min(max(part, 0), 1)) },
	"first":   func(reasons []string) []string { return reasons[:min(len(reasons), mostReasons)] },
	"further": func(reasons []string) []string {
		return reasons[min(len(reasons), mostReasons):min(len(reasons), mostListed)]
	},
	"add":  func(a, b int) int { return a + b },
	"join": strings.Join,
}).ParseFS(files, "page.html"))

// concat returns the text of embedded files.
func concat(names ...string) (text string) {
	for _, name := range names {
		content, err := files.ReadFile(name)
		if err != nil {
			panic("report: " + err.Error()) // they are part of the program
		}
		text += string(content) + "\n"
	}
	return text
}

func short(text string) string {
	if runes := []rune(text); len(runes) > longestText {
		return string(runes[:longestText]) + "…"
	}
	return text
}

// Badge returns the status in a word or two, with a sign that needs no colours.
func (v Verdict) Badge() string {
	sign := map[Status]string{Passed: "✓", Failed: "✕", Stalled: "◼", Interrupted: "◼", NotJudged: "–"}[v.Status]
	return sign + " " + capital(v.word())
}

// Sentence returns the verdict's line as a sentence.
func (v Verdict) Sentence() string {
	switch {
	case v.Line != "":
		return capital(v.Line) + "."
	case v.Status == Failed:
		return "Not all went as it was to go."
	}
	return ""
}

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
