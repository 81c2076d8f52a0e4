// Command mutants changes the code of a package, bit by bit, and lists the changes that no test notices. It compiles
// all of them at once. A variable of the environment turns one of them on, so none takes a build of its own.
//
// It first finds out which tests run the code of each mutant. Each mutant then meets these tests. Tests of other
// packages may be among them.
//
// usage: mutants [FLAGS] PACKAGE[=PATTERN] [OTHER PACKAGE[=PATTERN]]...
//
// A pattern says which tests of a package to run.
//
// A file of survivors has the mutants that no test has to notice, one on each line. The line "# SENTENCE" above says
// why they do not matter. With such a file, the program fails if another mutant lives. It also fails if a line names
// none that lives.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// options say what to try.
type options struct {
	skip, only, survivors  string
	short, broker, verbose bool
	jobs                   int
	least                  float64
}

func main() {
	var o options
	flag.StringVar(&o.skip, "skip", "^$", "`pattern` of the files to leave alone")
	flag.StringVar(&o.only, "only", ".", "`pattern` of the mutants to try, such as run.go:12")
	flag.StringVar(&o.survivors, "survivors", "", "`file` of the mutants that do not matter")
	flag.BoolVar(&o.short, "short", false, "run the tests with -short")
	flag.BoolVar(&o.broker, "broker", false, "start one broker for all tests")
	flag.BoolVar(&o.verbose, "v", false, "list the killed mutants, too")
	flag.IntVar(&o.jobs, "jobs", runtime.GOMAXPROCS(0), "how many mutants to try at the same time")
	flag.Float64Var(&o.least, "least", 0, "fail if less than this `percentage` is killed")
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := o.try(ctx, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// try tries the mutants of the first package with the tests of all.
func (o options) try(ctx context.Context, packages []string) (err error) {
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	of, _, _ := strings.Cut(packages[0], "=")
	mutants, overlay, err := mutate(of, regexp.MustCompile(o.skip), dir)
	if err != nil {
		return err
	}
	var environment []string
	if o.broker {
		broker, failed := brokertest.Start(ctx, os.Stderr, brokertest.InMemory())
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, broker.Stop()) }()
		environment = append(broker.Environ(), "TF_ACC=1")
	}
	var tests []*tested
	for i, argument := range packages {
		name, pattern, _ := strings.Cut(argument, "=")
		t := &tested{program: filepath.Join(dir, fmt.Sprintf("%d.test", i)), repeats: o.broker,
			environment: environment, flags: []string{fmt.Sprintf("-test.short=%t", o.short), "-test.failfast",
				"-test.timeout=0", "-test.parallel=12"}}
		if err := t.build(ctx, name, overlay, cmp.Or(pattern, ".")); err != nil {
			return err
		}
		if err := t.reach(ctx, o.jobs); err != nil {
			return err
		}
		tests = append(tests, t)
	}
	allowed, err := readSurvivors(o.survivors)
	if err != nil {
		return err
	}
	fates := o.fates(ctx, mutants, tests)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	count := map[fate]int{}
	for _, f := range fates {
		count[f]++
	}
	all := count[isKilled] + count[isAlive] + count[isUnreached] + count[isUnsure]
	percent := 100 * float64(count[isKilled]) / float64(max(1, all))
	fmt.Printf("%d mutants of %s: %d killed (%.1f %%), %d alive, %d in code that no test runs, %d unsure\n", all, of,
		count[isKilled], percent, count[isAlive], count[isUnreached], count[isUnsure])
	if percent < o.least {
		return fmt.Errorf("less than %.1f %% are killed", o.least)
	}
	if o.survivors != "" {
		return allowed.check(mutants, fates)
	}
	return nil
}

// fates are those of the mutants, by their numbers. It lists the ones that are not killed.
func (o options) fates(ctx context.Context, mutants []mutant, tests []*tested) map[int]fate {
	fates := map[int]fate{}
	var mutex sync.Mutex
	var workers sync.WaitGroup
	next := make(chan mutant)
	for range o.jobs {
		workers.Go(func() {
			for m := range next {
				end := meet(ctx, m, tests)
				if ctx.Err() != nil {
					continue // what an interrupt ends has no fate
				}
				mutex.Lock()
				if fates[m.number] = end; end != isKilled || o.verbose {
					fmt.Printf("%s: %s\n\t%s\n", m, end, m.key())
				}
				mutex.Unlock()
			}
		})
	}
	chosen := regexp.MustCompile(o.only)
	for _, m := range mutants {
		if chosen.MatchString(m.String()) && ctx.Err() == nil {
			next <- m
		}
	}
	close(next)
	workers.Wait()
	return fates
}

// fate is what becomes of a mutant.
type fate string

const (
	isKilled    fate = "killed"
	isAlive     fate = "alive"
	isUnreached fate = "no test runs it"
	isUnsure    fate = "its tests fail now and then"
)

// meet has a mutant meet the tests that run its code, the quick ones first.
func meet(ctx context.Context, m mutant, tests []*tested) fate {
	end := isUnreached
	for round, isOver := 0, false; !isOver; round++ {
		isOver = true
		for _, t := range tests {
			names := t.that(m.number, round)
			if len(names) == 0 {
				continue
			}
			isOver = false
			switch t.meet(ctx, m.number, names) {
			case isKilled:
				return isKilled
			case isUnsure:
				end = isUnsure
			default:
				if end == isUnreached {
					end = isAlive
				}
			}
		}
	}
	return end
}
