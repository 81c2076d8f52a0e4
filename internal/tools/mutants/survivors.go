package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// survivors are mutants that do not matter, each with the sentence that says why, by their keys.
type survivors map[string]string

// readSurvivors reads a file. Where there is none, each mutant matters.
func readSurvivors(file string) (survivors, error) {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	all, why := survivors{}, ""
	for _, line := range strings.Split(string(text), "\n") {
		sentence, is := strings.CutPrefix(line, "# ")
		switch {
		case is:
			why = sentence
		case line == "":
			why = ""
		case why == "":
			return nil, fmt.Errorf("%s: no sentence says why this mutant does not matter: %s", file, line)
		default:
			all[line] = why
		}
	}
	return all, nil
}

// check tells of mutants that live without a sentence, and of sentences without a mutant that lives. One whose tests
// fail now and then is neither.
func (s survivors) check(mutants []mutant, fates map[int]fate) error {
	var errs []error
	unused, met := map[string]bool{}, map[string]bool{}
	for key := range s {
		unused[key] = true
	}
	for _, m := range mutants {
		end, tried := fates[m.number]
		_, allowed := s[m.key()]
		if lives := end == isAlive || end == isUnreached; lives && !allowed {
			errs = append(errs, fmt.Errorf("a test has to notice %s, or a sentence has to allow it:\n\t%s", m, m.key()))
		}
		if allowed && met[m.key()] {
			errs = append(errs, fmt.Errorf("a sentence allows two mutants, so change a line:\n\t%s", m.key()))
		}
		met[m.key()] = true
		if !tried || end != isKilled {
			delete(unused, m.key())
		}
	}
	for key := range unused {
		errs = append(errs, fmt.Errorf("a sentence allows a mutant that is killed, or that there is not:\n\t%s", key))
	}
	return errors.Join(errs...)
}
