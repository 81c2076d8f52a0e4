// Prose copies the sentences that Vale does not find by itself: the texts in Go code, and the comments of other files.
// Each copy is a Markdown file below -out, with the sentences on their lines. Of tests it reads only those that are
// named: some have the texts that the code puts together.
package main

import (
	"cmp"
	"flag"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"log"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	log.SetFlags(0)
	out := flag.String("out", "", "the directory for the copies")
	flag.Parse()
	packages := map[string][]string{}
	for _, root := range flag.Args() {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			switch extension := filepath.Ext(path); {
			case err != nil:
				return err
			case entry.Name() == "testdata":
				return fs.SkipDir
			case entry.IsDir():
			case strings.HasSuffix(path, "_test.go"):
				if path == root {
					packages[path] = []string{path}
				}
			case extension == ".go":
				packages[filepath.Dir(path)] = append(packages[filepath.Dir(path)], path)
			case slices.Contains(commented, extension):
				return write(*out, path, comments)
			}
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	for _, paths := range packages {
		if err := writeTexts(*out, paths); err != nil {
			log.Fatal(err)
		}
	}
}

// commented are the kinds of files whose comments Vale does not know. Scripts and makefiles have no extension.
var commented = []string{"", ".cs", ".hcl", ".rego", ".sh", ".tf", ".yml"}

func write(out, path string, sentences func(source string) []string) error {
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	to := filepath.Join(out, path+".md")
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, []byte(strings.Join(sentences(string(source)), "\n")+"\n"), 0o600)
}

var comment = regexp.MustCompile(`^\s*(?:#+|//+)(?:$|\s(.*))|\s(?:##?|//) (.*)`)

// comments keeps the comments of a file, each on its line.
func comments(source string) []string {
	var lines []string
	for line := range strings.Lines(source) {
		match := comment.FindStringSubmatch(strings.TrimRight(line, "\n"))
		switch {
		case match == nil:
			lines = append(lines, "")
		case match[2] != "", strings.HasPrefix(match[1], "  "): // behind code or in a table: it ends with the line
			lines = append(lines, "- "+strings.TrimSpace(match[1]+match[2]))
		default:
			lines = append(lines, match[1])
		}
	}
	return lines
}

// writeTexts copies the texts of files of one package.
func writeTexts(out string, paths []string) error {
	set := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	// Without imports, it gives the constants of the package all the same.
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	config := types.Config{Error: func(error) {}, FakeImportC: true, Importer: nothing{}}
	_, _ = config.Check("", set, files, info)
	for i, file := range files {
		err := write(out, paths[i], func(string) []string {
			found := map[int][]string{}
			texts(file, info, func(at token.Pos, text string) {
				line := set.Position(at).Line
				found[line] = append(found[line], text)
			})
			return lay(found)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

type nothing struct{}

func (nothing) Import(path string) (*types.Package, error) {
	return types.NewPackage(path, filepath.Base(path)), nil
}

// texts finds the string literals below the node. Concatenated ones are one text, with a word in the place of a value.
func texts(node ast.Node, info *types.Info, found func(token.Pos, string)) {
	ast.Inspect(node, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			if node.Tag != nil {
				texts(node.Type, info, found)
				return false
			}
		case *ast.BasicLit:
			if text, ok := constantText(node, info); ok {
				found(node.Pos(), text)
			}
		case *ast.BinaryExpr:
			if text, ok := concatenated(node, info, found); ok {
				found(node.Pos(), text)
				return false
			}
		}
		return true
	})
}

// concatenated is the text of an expression that has string literals.
func concatenated(expression ast.Expr, info *types.Info, found func(token.Pos, string)) (text string, ok bool) {
	if text, ok := constantText(expression, info); ok {
		return text, true
	}
	binary, ok := expression.(*ast.BinaryExpr)
	if !ok || binary.Op != token.ADD {
		return "", false
	}
	left, isLeft := concatenated(binary.X, info, found)
	right, isRight := concatenated(binary.Y, info, found)
	if !isLeft && !isRight {
		return "", false
	}
	if !isLeft {
		texts(binary.X, info, found)
	}
	if !isRight {
		texts(binary.Y, info, found)
	}
	return cmp.Or(left, "value ") + cmp.Or(right, " value"), true
}

func constantText(expression ast.Expr, info *types.Info) (text string, ok bool) {
	value := info.Types[expression].Value
	if value == nil || value.Kind() != constant.String {
		return "", false
	}
	return constant.StringVal(value), true
}

// lay puts each line of a text on its line, or on the next one that is free.
func lay(found map[int][]string) []string {
	var lines []string
	for _, at := range slices.Sorted(maps.Keys(found)) {
		for len(lines) < at-1 {
			lines = append(lines, "")
		}
		for text := range strings.Lines(strings.Join(found[at], "\n")) {
			if words := strings.Fields(strings.ReplaceAll(text, "<", `\<`)); len(words) > 1 {
				lines = append(lines, "- "+strings.Join(words, " "))
			}
		}
	}
	return lines
}
