package acceptance

import (
	"bytes"
	"encoding/json"
	"os"
	"sync"
	"testing"
	"text/template"
)

// The page of guarantees states how much was tried. Its figures stand in figuresFile; every test run
// compares them with what it counts, and UPDATE_FIGURES=1 writes them and the page anew.
const (
	figuresFile  = "testdata/figures.json"
	pageTemplate = "testdata/guarantees.md.tmpl"
	page         = "../../templates/guides/guarantees.md"
)

var figuresMutex sync.Mutex

// figure checks a count that the page of guarantees states.
func figure(t testing.TB, name string, count int) {
	t.Helper()
	figuresMutex.Lock()
	defer figuresMutex.Unlock()
	figures := readFigures(t)
	if updateFigures() {
		figures[name] = count
		text, err := json.MarshalIndent(figures, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(figuresFile, append(text, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if figures[name] != count {
		t.Errorf("%s is %d, and %s says %d; if that is as it should be, write it anew with UPDATE_FIGURES=1", name,
			count, figuresFile, figures[name])
	}
}

// TestGuaranteesPage compares the page with its figures. With UPDATE_FIGURES=1 run it last, by itself.
func TestGuaranteesPage(t *testing.T) {
	text, err := os.ReadFile(pageTemplate)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := template.New("page").Option("missingkey=error").Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	var rendered bytes.Buffer
	if err := parsed.Execute(&rendered, readFigures(t)); err != nil {
		t.Fatal(err)
	}
	if updateFigures() {
		if err := os.WriteFile(page, rendered.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have, err := os.ReadFile(page); err != nil || !bytes.Equal(have, rendered.Bytes()) {
		t.Errorf("%s is not what %s gives with the figures of %s (%v); write it anew with UPDATE_FIGURES=1", page,
			pageTemplate, figuresFile, err)
	}
}

func readFigures(t testing.TB) map[string]int {
	t.Helper()
	figures := map[string]int{}
	text, err := os.ReadFile(figuresFile)
	if err == nil {
		err = json.Unmarshal(text, &figures)
	}
	if err != nil {
		t.Fatal(err)
	}
	return figures
}

func updateFigures() bool { return os.Getenv("UPDATE_FIGURES") != "" }
