package acceptance

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
)

// browsed are the places where the repository's other files, directories and pictures are read.
var browsed = regexp.MustCompile(`^https://(github\.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/(blob|tree)|` +
	`raw\.githubusercontent\.com/rabbitmqdelay/terraform-provider-rabbitmqdelay)/main/`)

// TestLinks follows every link to a file of the repository, with its anchor. The links have to work where a repository
// is browsed, which takes the names of files, and on the registry, which strips .md from them. The registry's front
// page has no slash at its end, so that no relative link works on it. The workflow nightly follows the links to others.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for name, text := range pages(t) {
		published := strings.HasPrefix(name, "docs/")
		for _, found := range link.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
			target, anchor, _ := strings.Cut(found[1], "#")
			switch relative, absolute := strings.CutPrefix(target, docstest.Registry); {
			case browsed.MatchString(target):
				target = browsed.ReplaceAllString(target, "")
			case absolute:
				target = "docs/" + relative + ".md"
			case strings.Contains(target, ":"):
				continue
			case target == "":
				target = name
			case name == "docs/index.md":
				t.Errorf("%s: %s is a relative link: write %s…", name, found[1], docstest.Registry)
				continue
			default:
				target = filepath.ToSlash(filepath.Join(filepath.Dir(name), target))
				if published && !strings.HasPrefix(target, "docs/") {
					t.Errorf("%s: %s is not on the registry", name, found[1])
				}
			}
			if _, err := os.Stat(filepath.Join(docstest.Checkout, target)); err != nil {
				t.Errorf("%s: %s leads nowhere", name, found[1])
			} else if anchor != "" && !anchors(docstest.ReadPage(t, target))[anchor] {
				t.Errorf("%s: %s leads to no heading", name, found[1])
			}
		}
	}
}

// TestExamplesIndex looks for every folder of the examples in their index.
func TestExamplesIndex(t *testing.T) {
	index := docstest.ReadPage(t, "examples/README.md")
	for directory := range docstest.ExampleFiles(t) {
		folder, _, _ := strings.Cut(filepath.ToSlash(directory), "/")
		if folder != "." && !strings.Contains(index, "| ["+folder+"]("+folder+") |") {
			t.Errorf("examples/README.md has no line for %s", folder)
		}
	}
}

// TestDiagrams reads every line of the pages' Mermaid flowcharts.
func TestDiagrams(t *testing.T) {
	const (
		node  = `\w+(\[\w+\]|\(\[\w+\]\)|\[\("[^"]+"\)\]|\[\([\w.]+\)\]|\{\{("[^"]+"|[\w.-]+)\}\})?`
		arrow = ` (-- "[^"]+" -->|-->|-\. (\w+|"[^"]+") \.->) `
	)
	edges := regexp.MustCompile(`^  ` + node + `(` + arrow + node + `)+$`)
	diagrams := 0
	for name, text := range pages(t) {
		for _, block := range codeBlock.FindAllString(text, -1) {
			lines := strings.Split(strings.TrimSpace(block), "\n")
			if lines[0] != "```mermaid" {
				continue
			}
			diagrams++
			if lines[1] != "flowchart LR" {
				t.Errorf("%s: a diagram begins with %q", name, lines[1])
			}
			for _, line := range lines[2 : len(lines)-1] {
				if !edges.MatchString(line) {
					t.Errorf("%s: Mermaid does not understand %q", name, line)
				}
			}
		}
	}
	if diagrams == 0 {
		t.Error("there is no diagram")
	}
}

// TestRequirements compares the versions on the front page with those that the workflow has, the last OpenTofu being
// that of internal/tools.
func TestRequirements(t *testing.T) {
	workflow, front := docstest.ReadPage(t, ".github/workflows/nightly.yml"), docstest.ReadPage(t,
		"templates/index.md.tmpl")
	versions := func(matrix string) []string {
		found := regexp.MustCompile(`(?m)^ +` + matrix + `: \["(.*)"\]`).FindStringSubmatch(workflow)
		if found == nil {
			t.Fatalf("there is no matrix of %s", matrix)
		}
		return strings.Split(found[1], `", "`)
	}
	rabbitmq, terraform, opentofu := versions("rabbitmq"), versions("terraform"), versions("opentofu")
	module := docstest.ReadPage(t, "internal/tools/tofu/go.mod")
	tool := regexp.MustCompile(`opentofu/opentofu v(\d+\.\d+)`).FindStringSubmatch(module)
	if tool == nil {
		t.Fatal("there is no tool OpenTofu")
	}
	for _, says := range []string{
		"RabbitMQ " + rabbitmq[0] + " or later with the management plugin; tested up to " + rabbitmq[len(rabbitmq)-1],
		"Terraform, tested from " + terraform[0] + " to " + terraform[len(terraform)-1],
		"OpenTofu, tested from " + opentofu[0] + " to " + tool[1],
	} {
		if !strings.Contains(front, says) {
			t.Errorf("the front page does not say: %s", says)
		}
	}
}

var codeBlock = regexp.MustCompile("(?ms)^```.*?^```$")

// pages are the texts for users and developers by file.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "ROADMAP.md",
		"CODE_OF_CONDUCT.md", "examples/README.md", "examples/bridge/README.md", "examples/policy/README.md",
		"internal/bench/results/README.md"} {
		texts[name] = docstest.ReadPage(t, name)
	}
	if err := fs.WalkDir(os.DirFS(docstest.Checkout), "docs", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			texts[name] = docstest.ReadPage(t, name)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return texts
}

// anchors are those that the headings of a page get, and those that it sets itself.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	text = codeBlock.ReplaceAllString(text, "")
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		words := regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		found[strings.ReplaceAll(words, " ", "-")] = true
	}
	for _, id := range regexp.MustCompile(`<a id="([^"]+)">`).FindAllStringSubmatch(text, -1) {
		found[id[1]] = true
	}
	return found
}
