// Guarantees writes the page of guarantees, with the figures that the tests count: template and figures in, page out.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"text/template"
)

const (
	pageTemplate = "internal/acceptance/testdata/guarantees.md.tmpl"
	figuresFile  = "internal/acceptance/testdata/figures.json"
)

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write() error {
	text, err := os.ReadFile(figuresFile)
	if err != nil {
		return err
	}
	figures := map[string]int{}
	if err := json.Unmarshal(text, &figures); err != nil {
		return err
	}
	page, err := template.New("guarantees.md.tmpl").Option("missingkey=error").ParseFiles(pageTemplate)
	if err != nil {
		return err
	}
	return page.Execute(os.Stdout, figures)
}
