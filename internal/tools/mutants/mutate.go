package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// mutant is a change of the code.
type mutant struct {
	number int
	at     token.Position
	// function and line are those of the code.
	function, line, change string
}

// String names the place and the change.
func (m mutant) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", filepath.Base(m.at.Filename), m.at.Line, m.at.Column, m.change)
}

// key names the function and the line, and stays as it is while other lines come and go. A mark shows the place in the
// line.
func (m mutant) key() string {
	column := m.at.Column - 1
	return fmt.Sprintf("%s, %s: %s: %s", filepath.Base(m.at.Filename), m.function,
		strings.TrimSpace(m.line[:column]+"»"+m.line[column:]), m.change)
}

// mutator writes the files of a package anew, with all mutants.
type mutator struct {
	fset    *token.FileSet
	info    types.Info
	pkg     *types.Package
	mutants []mutant
	// source is the code of a file. Before and after are what to write around it, by its offsets, and instead is what
	// to write for its operators.
	source        []byte
	function      string // that the mutants are in, empty outside of all
	before, after map[int]string
	instead       map[int]operator
}

// operator is what the code has, and what to write for it.
type operator struct{ is, instead string }

//go:embed switches.txt
var switches string

// mutate writes a package with all its mutants into a directory. The overlay, for go test, has it take the place of the
// package.
func mutate(name string, skip *regexp.Regexp, dir string) (mutants []mutant, overlay string, err error) {
	m := &mutator{fset: token.NewFileSet(), info: types.Info{Types: map[ast.Expr]types.TypeAndValue{}}}
	files, err := m.load(name)
	if err != nil {
		return nil, "", err
	}
	texts := map[string][]byte{}
	for _, file := range files {
		path := m.fset.Position(file.Pos()).Filename
		texts[filepath.Join(filepath.Dir(path), "mutants.go")] = []byte(strings.Replace(switches, "PACKAGE",
			m.pkg.Name(), 1))
		if skip.MatchString(filepath.Base(path)) {
			continue
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, "", err
		}
		texts[path] = m.rewrite(file, source)
	}
	replace := map[string]string{}
	for path, text := range texts {
		replace[path] = filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(replace[path], text, 0o600); err != nil {
			return nil, "", err
		}
	}
	overlay = filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": replace})
	return m.mutants, overlay, errors.Join(err, os.WriteFile(overlay, text, 0o600))
}

// load reads a package with its types. Those of other packages are what the compiler has exported.
func (m *mutator) load(name string) (files []*ast.File, err error) {
	out, err := exec.Command("go", "list", "-export", "-deps", "-json=Dir,ImportPath,Export,GoFiles,DepOnly",
		name).Output()
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Dir, ImportPath, Export string
			GoFiles                 []string
			DepOnly                 bool
		}
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		exports[p.ImportPath] = p.Export
		if p.DepOnly {
			continue
		}
		for _, file := range p.GoFiles {
			parsed, err := parser.ParseFile(m.fset, filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			files = append(files, parsed)
		}
	}
	config := types.Config{Importer: importer.ForCompiler(m.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})}
	m.pkg, err = config.Check(name, m.fset, files, &m.info)
	return files, err
}

// rewrite is a file with its mutants.
func (m *mutator) rewrite(file *ast.File, source []byte) []byte {
	m.source, m.before, m.after, m.instead = source, map[int]string{}, map[int]string{}, map[int]operator{}
	for _, declaration := range file.Decls {
		m.function = ""
		if d, is := declaration.(*ast.FuncDecl); is {
			m.function = d.Name.Name
		}
		ast.Inspect(declaration, func(n ast.Node) bool {
			if d, is := n.(*ast.GenDecl); is && d.Tok != token.VAR {
				return false
			}
			m.visit(n)
			return true
		})
	}
	var b bytes.Buffer
	for i := 0; i <= len(source); i++ {
		b.WriteString(m.after[i] + m.before[i])
		if operator, is := m.instead[i]; is {
			b.WriteString(operator.instead)
			i += len(operator.is) - 1
		} else if i < len(source) {
			b.WriteByte(source[i])
		}
	}
	return b.Bytes()
}

var (
	comparisons = map[token.Token]token.Token{token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.GEQ,
		token.LEQ: token.GTR, token.GTR: token.LEQ, token.GEQ: token.LSS}
	boundaries = map[token.Token]token.Token{token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ,
		token.GEQ: token.GTR}
	logical    = map[token.Token]token.Token{token.LAND: token.LOR, token.LOR: token.LAND}
	arithmetic = map[token.Token]token.Token{token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO,
		token.QUO: token.MUL, token.REM: token.MUL}
)

// visit adds the mutants of a node.
func (m *mutator) visit(node ast.Node) {
	switch n := node.(type) {
	case *ast.BinaryExpr:
		m.binary(n)
	case *ast.UnaryExpr:
		if n.Op == token.SUB {
			m.around(n, fmt.Sprintf("mutantSigned[%s](%s, ", m.typeOf(n), m.add(n.OpPos, "- becomes +")), ")")
		}
		if n.Op == token.NOT {
			m.condition(n.X)
		}
	case *ast.IncDecStmt:
		assign, other := "+=", token.DEC
		if n.Tok == token.DEC {
			assign, other = "-=", token.INC
		}
		m.instead[m.offset(n.TokPos)] = operator{n.Tok.String(), fmt.Sprintf("%s mutantSigned[%s](%s, 1)", assign,
			m.typeOf(n.X), m.add(n.TokPos, fmt.Sprintf("%s becomes %s", n.Tok, other)))}
	case *ast.IfStmt:
		m.condition(n.Cond)
	case *ast.ForStmt:
		m.condition(n.Cond)
	case *ast.SwitchStmt:
		if n.Tag != nil {
			return
		}
		for _, clause := range n.Body.List {
			if clause, is := clause.(*ast.CaseClause); is {
				for _, condition := range clause.List {
					m.condition(condition)
				}
			}
		}
	}
}

// binary adds the mutants of an operator.
func (m *mutator) binary(n *ast.BinaryExpr) {
	change := func(to token.Token) string { return m.add(n.OpPos, fmt.Sprintf("%s becomes %s", n.Op, to)) }
	if to, is := comparisons[n.Op]; is {
		m.around(n, "("+m.on(change(to))+" != (", "))")
	}
	if to, is := boundaries[n.Op]; is {
		m.call(n, fmt.Sprintf("mutantCompare(%s, %q, %q, ", change(to), n.Op, to))
	}
	if to, is := logical[n.Op]; is {
		// By De Morgan: a || b is !(!a && !b).
		on := m.on(change(to))
		m.around(n, "(("+on+" != (", ")) != "+on+")")
		m.before[m.offset(n.OpPos)] += ") "
		m.after[m.offset(n.Y.Pos())] += on + " != ("
		m.condition(n.X)
		m.condition(n.Y)
	}
	if to, is := arithmetic[n.Op]; is {
		if basic, is := m.info.TypeOf(n).Underlying().(*types.Basic); is && basic.Info()&types.IsInteger != 0 {
			m.call(n, fmt.Sprintf("mutantArithmetic[%s](%s, %q, %q, ", m.typeOf(n), change(to), n.Op, to))
		}
	}
}

// condition adds the mutant of a condition that is no operator of its own.
func (m *mutator) condition(n ast.Expr) {
	switch ast.Unparen(n).(type) {
	case nil, *ast.BinaryExpr, *ast.UnaryExpr:
		return
	}
	m.around(n, "("+m.on(m.add(n.Pos(), "the condition is negated"))+" != (", "))")
}

// call makes the operator one of a function.
func (m *mutator) call(n *ast.BinaryExpr, function string) {
	m.around(n, function, ")")
	m.instead[m.offset(n.OpPos)] = operator{n.Op.String(), ","}
}

// around writes text around a node, inside the text that is there already.
func (m *mutator) around(n ast.Node, before, after string) {
	m.before[m.offset(n.Pos())] += before
	m.after[m.offset(n.End())] = after + m.after[m.offset(n.End())]
}

func (m *mutator) offset(at token.Pos) int { return m.fset.Position(at).Offset }

func (m *mutator) on(number string) string { return "mutantIs(" + number + ")" }

func (m *mutator) typeOf(n ast.Expr) string {
	return types.TypeString(types.Default(m.info.TypeOf(n)), func(p *types.Package) string {
		if p == m.pkg {
			return ""
		}
		return p.Name()
	})
}

// add adds a mutant, and gives its number as the code has it.
func (m *mutator) add(at token.Pos, change string) string {
	number, position := len(m.mutants)+1, m.fset.Position(at)
	from := position.Offset - position.Column + 1
	line, _, _ := strings.Cut(string(m.source[from:]), "\n")
	m.mutants = append(m.mutants, mutant{number, position, m.function, line, change})
	return fmt.Sprintf("%q", fmt.Sprint(number))
}
