// Package sampling chooses what a test tries of a long list, such as that of all faults at all requests. SAMPLE=20
// tries one case in 20, chosen by SEED; without SAMPLE, every case is tried. It never leaves out a case silently.
// Call Of with the list.
package sampling

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
)

// Of returns the cases to try, in their order, and at least one. The choice depends on SEED, the name of the test, the
// name of the list and its length. So the same SEED chooses the same cases again, whatever else runs.
func Of[T any](t testing.TB, list string, all []T) []T {
	t.Helper()
	oneIn, seed, err := parse(os.Getenv("SAMPLE"), os.Getenv("SEED"))
	if err != nil {
		t.Fatal(err)
	}
	some := choose(all, oneIn, seed, t.Name()+"\x00"+list)
	if len(some) < len(all) {
		t.Logf("sample: %d of %d %s; SAMPLE=%d SEED=%d tries the same", len(some), len(all), list, oneIn, seed)
	}
	return some
}

// Whole tells whether Of returns every case.
func Whole() bool {
	oneIn, _, err := parse(os.Getenv("SAMPLE"), os.Getenv("SEED"))
	return err == nil && oneIn == 1
}

func choose[T any](all []T, oneIn int, seed uint64, name string) []T {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(name))                                    // it does not fail
	places := rand.New(rand.NewPCG(seed, hash.Sum64())).Perm(len(all)) //nolint:gosec // to be repeatable
	places = places[:(len(all)+oneIn-1)/oneIn]
	slices.Sort(places)
	some := make([]T, len(places))
	for i, place := range places {
		some[i] = all[place]
	}
	return some
}

func parse(sample, seed string) (oneIn int, _ uint64, err error) {
	if sample == "" {
		return 1, 0, nil
	}
	if oneIn, err = strconv.Atoi(sample); err != nil || oneIn < 1 {
		return 0, 0, fmt.Errorf("SAMPLE is %q: write a whole number from 1, such as 20 for one case in 20", sample)
	}
	number, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		return 0, 0, fmt.Errorf("SEED is %q: with SAMPLE, write a whole number, by which the cases are chosen", seed)
	}
	return oneIn, number, nil
}
