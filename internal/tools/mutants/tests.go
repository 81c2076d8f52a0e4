package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tested are the tests of a package, as a program.
type tested struct {
	program, dir string
	environment  []string
	short        bool
	names        []string
	// reaches are the tests that run each mutant, by its number, and took is how long each takes.
	reaches map[int][]string
	took    map[string]time.Duration
}

// build makes the tests of a package into a program that has all mutants.
func (t *tested) build(ctx context.Context, name, overlay, run string) error {
	out, err := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", t.program,
		name).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w:\n%s", err, out)
	}
	if out, err = exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", name).Output(); err != nil {
		return err
	}
	t.dir = strings.TrimSpace(string(out))
	if out, err = t.command(ctx, "-test.list", run).Output(); err != nil {
		return err
	}
	t.names = slices.DeleteFunc(strings.Fields(string(out)), func(name string) bool {
		return !strings.HasPrefix(name, "Test") && !strings.HasPrefix(name, "Fuzz")
	})
	return nil
}

func (t *tested) command(ctx context.Context, arguments ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, t.program, arguments...)
	c.Dir, c.Env, c.WaitDelay = t.dir, append(os.Environ(), t.environment...), time.Second
	return c
}

// run runs some of the tests, with a variable.
func (t *tested) run(ctx context.Context, names []string, variable string) error {
	c := t.command(ctx, "-test.short="+strconv.FormatBool(t.short), "-test.failfast", "-test.timeout=0",
		"-test.run", "^("+strings.Join(names, "|")+")$")
	c.Env = append(c.Env, variable)
	out, err := c.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w:\n%s", err, out)
	}
	return err
}

// reach finds out which mutants each test runs, and how long that takes. A test that is skipped runs none.
func (t *tested) reach(ctx context.Context, file string) error {
	t.reaches, t.took = map[int][]string{}, map[string]time.Duration{}
	for _, name := range t.names {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			return err
		}
		began := time.Now()
		if err := t.run(ctx, []string{name}, "MUTANTS_REACHED="+file); err != nil {
			return fmt.Errorf("without a mutant: %w", err)
		}
		t.took[name] = time.Since(began)
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, word := range strings.Fields(string(text)) {
			number, err := strconv.Atoi(word)
			if err != nil {
				return err
			}
			t.reaches[number] = append(t.reaches[number], name)
		}
	}
	return nil
}

// kills tells whether one of the tests that run its code notices a mutant. Tests that do not end notice it.
func (t *tested) kills(ctx context.Context, number int) bool {
	names, limit := t.reaches[number], 30*time.Second
	for _, name := range names {
		limit += 10 * t.took[name]
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return len(names) > 0 && t.run(ctx, names, fmt.Sprintf("MUTANT=%d", number)) != nil
}
