package pages

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// text writes a page.
func text(t *testing.T, page Page) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, page.Write(&b))
	return b.String()
}

// element is an element of a page, with the scripts and styles left out.
type element struct {
	name     string
	attrs    map[string]string
	text     string // its own and that of all below
	children []*element
}

var raw = regexp.MustCompile(`(?s)<(script|style)[^>]*>.*?</(script|style)>`)

// parse reads the document and fails if an element is not closed where it was opened.
func parse(t *testing.T, document string) *element {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(raw.ReplaceAllString(document, "")))
	decoder.Entity = xml.HTMLEntity
	stack := []*element{{}}
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			e := &element{name: token.Name.Local, attrs: make(map[string]string)}
			for _, attr := range token.Attr {
				e.attrs[attr.Name.Local] = attr.Value
			}
			parent := stack[len(stack)-1]
			parent.children = append(parent.children, e)
			stack = append(stack, e)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		case xml.CharData:
			for _, e := range stack {
				e.text += string(token)
			}
		}
	}
	return stack[0]
}

// all lists the elements of a name, and of a class if it is not empty.
func (e *element) all(name, class string) (found []*element) {
	for _, child := range e.children {
		if child.name == name && (class == "" || strings.Contains(" "+child.attrs["class"]+" ", " "+class+" ")) {
			found = append(found, child)
		}
		found = append(found, child.all(name, class)...)
	}
	return found
}

// drawings are the data of all charts in a document.
func drawings(t *testing.T, document string) (data []map[string]any) {
	t.Helper()
	for _, match := range regexp.MustCompile(`(?s)<script type="application/json">(.*?)</script>`).FindAllStringSubmatch(document, -1) {
		var d map[string]any
		require.NoError(t, json.Unmarshal([]byte(match[1]), &d))
		data = append(data, d)
	}
	return data
}

// everything is a page that has one of each.
func everything(text string) Page {
	return Page{
		Title: text, About: text, Made: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC),
		Verdict: Verdict{Failed, text, []string{text}},
		Sections: []Section{{
			ID: "one", Title: text, About: text, Verdict: Verdict{Interrupted, text, nil}, Foldable: true, Open: true,
			Tiles:  []Tile{{text, text, text, true}},
			Facts:  []Facts{{text, []Fact{{text, text, text}}}},
			Tables: []Table{{text, []string{"<" + text, text}, [][]Cell{{{Text: text, Link: "one"}, {Text: text, Bar: 0.5, Target: 0.9, Status: Passed}}}}},
			Charts: []Chart{
				Curves(text, Axis{text, text}, Axis{text, text}, Series{Name: text, Points: []Point{{1, 2}, {3, 4}}}, Series{Name: text}),
				Histogram(text, Axis{text, text}, text, []float64{1, 2, 3}),
				Curves(text, Axis{}, Axis{}, Series{Name: text}),
			},
			Notes: []string{text},
		}, {Title: text}},
	}
}

func TestPageHasWhatItWasMadeOf(t *testing.T) {
	t.Parallel()
	document := parse(t, text(t, everything("Things")))
	assert.Len(t, document.all("section", ""), 2)
	assert.Equal(t, "one", document.all("section", "")[0].attrs["id"])
	assert.Equal(t, "Things", document.all("h1", "")[0].text)
	verdicts := document.all("div", "verdict")
	require.Len(t, verdicts, 2)
	assert.Contains(t, verdicts[0].text, "✕ Failed")
	assert.Len(t, verdicts[0].all("li", ""), 1)
	assert.Contains(t, verdicts[1].text, "◼ Interrupted")
	assert.Len(t, document.all("div", "tile"), 1)
	assert.Len(t, document.all("figure", ""), 3)
	assert.Equal(t, "left", document.all("th", "")[0].attrs["class"])
	assert.Equal(t, "#one", document.all("a", "")[0].attrs["href"])
	bar := document.all("span", "bar")[0]
	assert.Equal(t, "width:50%", bar.children[0].attrs["style"])
	assert.Equal(t, "left:90%", bar.children[1].attrs["style"])
	for _, fold := range document.all("details", "fold") {
		assert.Contains(t, fold.attrs, "open")
	}
	assert.Contains(t, document.text, "Made on 20 November 2026 at 12:00:00 UTC.")
	assert.Contains(t, document.text, "The MIT License", "the licence of what is inside")
}

func TestChartsHaveADescriptionAndATable(t *testing.T) {
	t.Parallel()
	document := parse(t, text(t, everything("Things")))
	plots := document.all("div", "plot")
	require.Len(t, plots, 2, "there is no picture of nothing")
	for _, plot := range plots {
		assert.Equal(t, "img", plot.attrs["role"])
		assert.NotEmpty(t, strings.TrimPrefix(plot.attrs["aria-label"], "Things. "))
	}
	for _, figure := range document.all("figure", "")[:2] {
		assert.NotEmpty(t, figure.all("tbody", "")[0].children)
	}
}

func TestNothingBreaksOutOfItsPlace(t *testing.T) {
	t.Parallel()
	const hostile = `"'><script>alert(1)</script><img src=x onerror=alert(2)>&amp;</style></title>` + "\u2028`${x}\\"
	document := text(t, everything(hostile))
	assert.Equal(t, 3, strings.Count(document, "<script"), "two charts with data, the program and nothing else")
	assert.NotContains(t, document, "<img")
	parsed := parse(t, document)
	assert.Equal(t, hostile, parsed.all("h1", "")[0].text)
	assert.Equal(t, hostile, parsed.all("td", "")[0].text)
	drawn := drawings(t, document)
	require.Len(t, drawn, 2)
	assert.Equal(t, hostile, drawn[0]["series"].([]any)[0].(map[string]any)["name"])
}

// A page must not even be able to fetch anything.
func TestPageStandsAlone(t *testing.T) {
	t.Parallel()
	document := text(t, everything("Things"))
	assert.NotRegexp(t, `(?i)(src|href|action|data|poster|content)\s*=\s*["']?\s*(https?:)?//`, document)
	assert.NotRegexp(t, `(?i)@import|url\(|<link|<base|<iframe|<img|sourceMappingURL`, document)
	assert.NotRegexp(t, `\b(fetch|XMLHttpRequest|WebSocket|EventSource|sendBeacon|importScripts)\b`, document)
	assert.Contains(t, document, `content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"`)
	assert.Contains(t, document, "uPlot (v1.6.32)", "as uplot/README.md says")
}

func TestFileIsReplacedAsAWhole(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	path := filepath.Join(directory, "report.html")
	require.NoError(t, CheckFile(path))
	assert.NoFileExists(t, path)
	require.NoError(t, os.WriteFile(path, []byte("before"), 0o600))
	require.NoError(t, CheckFile(path))
	link := filepath.Join(directory, "link.html")
	require.NoError(t, os.Symlink("report.html", link))

	unwritable := everything("Things")
	unwritable.Sections[0].Charts[0].data = math.NaN()
	require.Error(t, unwritable.WriteFile(link))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "before", string(content), "an error leaves what was there")

	require.NoError(t, everything("Things").WriteFile(link))
	content, err = os.ReadFile(path)
	require.NoError(t, err)
	assert.True(t, strings.HasSuffix(strings.TrimSpace(string(content)), "</html>"))
	info, err := os.Lstat(link)
	require.NoError(t, err)
	assert.NotZero(t, info.Mode()&os.ModeSymlink, "the link stays a link")
	entries, err := os.ReadDir(directory)
	require.NoError(t, err)
	assert.Len(t, entries, 2, "nothing is left behind")
}

func TestPathThatCannotBeWrittenIsRefused(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	missing := filepath.Join(directory, "missing", "report.html")
	for path, want := range map[string]string{
		missing:   "no file can be created in the directory " + filepath.Dir(missing),
		directory: directory + " exists and is not a file",
	} {
		assert.ErrorContains(t, CheckFile(path), want)
		assert.ErrorContains(t, Page{}.WriteFile(path), want)
	}
	if runtime.GOOS != "windows" {
		assert.ErrorContains(t, CheckFile(os.DevNull), "is not a file")
	}
}

func TestTableCellsFollowTheirColumns(t *testing.T) {
	t.Parallel()
	table := Table{Columns: []string{"<name", "number", ""}}
	assert.Equal(t, []head{{"name", true}, {"number", false}, {"", false}}, table.Head())
	assert.Equal(t, "true false false false", fmt.Sprint(table.Left(0), table.Left(1), table.Left(2), table.Left(3)))
}
