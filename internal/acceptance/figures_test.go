package acceptance

import (
	"encoding/json"
	"os"
	"sync"
	"testing"
)

// figuresFile has the figures of the page of guarantees. Every test run compares them with what it counts, and
// UPDATE_FIGURES=1 writes them anew.
const figuresFile = "testdata/figures.json"

var figuresMutex sync.Mutex

// figure checks a count that the page of guarantees states.
func figure(t testing.TB, name string, count int) {
	t.Helper()
	figuresMutex.Lock()
	defer figuresMutex.Unlock()
	figures := readFigures(t)
	if os.Getenv("UPDATE_FIGURES") != "" {
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
