package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// tested are the tests of a package, as a program.
type tested struct {
	program, dir string
	environment  []string
	flags        []string
	repeats      bool // has tests fail twice, see meet
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
	// Tests of package rapid would leave a file for each mutant.
	if flags, _ := t.command(ctx, "-h").CombinedOutput(); strings.Contains(string(flags), "rapid.nofailfile") {
		t.flags = append(t.flags, "-rapid.nofailfile")
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
	c := t.command(ctx, slices.Concat(t.flags, []string{"-test.run", "^(" + strings.Join(names, "|") + ")$"})...)
	c.Env = append(c.Env, variable)
	out, err := c.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w:\n%s", err, out)
	}
	return err
}

// reach finds out which mutants each test runs, and how long that takes. A test that is skipped runs none.
func (t *tested) reach(ctx context.Context, jobs int) error {
	t.reaches, t.took = map[int][]string{}, map[string]time.Duration{}
	var mutex sync.Mutex
	var errs []error
	var group errgroup.Group
	group.SetLimit(jobs)
	for _, name := range t.names {
		group.Go(func() error {
			began := time.Now()
			numbers, err := t.reachedBy(ctx, name)
			mutex.Lock()
			defer mutex.Unlock()
			t.took[name] = time.Since(began)
			for _, number := range numbers {
				t.reaches[number] = append(t.reaches[number], name)
			}
			errs = append(errs, err)
			return nil
		})
	}
	_ = group.Wait() // the errors are those of all tests
	slices.SortFunc(t.names, func(a, b string) int { return cmp.Compare(t.took[a], t.took[b]) })
	return errors.Join(errs...)
}

// reachedBy are the numbers of the mutants whose code a test runs.
func (t *tested) reachedBy(ctx context.Context, name string) (numbers []int, err error) {
	file := t.program + "." + name
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return nil, err
	}
	if err := t.run(ctx, []string{name}, "MUTANTS_REACHED="+file); err != nil {
		return nil, fmt.Errorf("without a mutant: %w", err)
	}
	text, err := os.ReadFile(file)
	for _, word := range strings.Fields(string(text)) {
		number, err := strconv.Atoi(word)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, number)
	}
	return numbers, err
}

// meet has a mutant meet some of the tests. A test that does not end notices it, too.
//
// With a broker, a test may fail because the machine is busy. There, the tests that fail have to fail once more, and
// then to pass without the mutant.
func (t *tested) meet(ctx context.Context, number int, names []string) fate {
	mutant := fmt.Sprintf("MUTANT=%d", number)
	err := t.within(ctx, names, mutant)
	switch {
	case err == nil:
		return isAlive
	case !t.repeats:
		return isKilled
	}
	if failed := failedTests.FindAllStringSubmatch(err.Error(), -1); len(failed) > 0 {
		names = nil
		for _, match := range failed {
			names = append(names, match[1])
		}
	}
	switch {
	case t.within(ctx, names, mutant) == nil:
		return isUnsure
	case t.within(ctx, names, "MUTANT=") != nil:
		return isUnsure
	}
	return isKilled
}

var failedTests = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// within runs tests for ten times as long as they took without a mutant, and half a minute.
func (t *tested) within(ctx context.Context, names []string, variable string) error {
	limit := 30 * time.Second
	for _, name := range names {
		limit += 10 * t.took[name]
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return t.run(ctx, names, variable)
}

// together is how many tests a mutant meets at once, so that the slower ones seldom run.
const together = 8

// that are some of the tests that run the code of a mutant: at round 0 the quickest, then the next ones.
func (t *tested) that(number, round int) []string {
	names := slices.DeleteFunc(slices.Clone(t.names),
		func(name string) bool { return !slices.Contains(t.reaches[number], name) })
	from, to := min(round*together, len(names)), min((round+1)*together, len(names))
	return names[from:to]
}
