package sampling

import (
	"slices"
	"testing"
)

func TestChoose(t *testing.T) {
	all := make([]int, 100)
	for i := range all {
		all[i] = i
	}
	if some := choose(all, 1, 7, "x"); !slices.Equal(some, all) {
		t.Errorf("one in 1 is %v", some)
	}
	some := choose(all, 20, 7, "x")
	if len(some) != 5 || !slices.IsSorted(some) || len(slices.Compact(slices.Clone(some))) != 5 {
		t.Errorf("one in 20 is %v", some)
	}
	if again := choose(all, 20, 7, "x"); !slices.Equal(again, some) {
		t.Errorf("the same seed gives %v and %v", some, again)
	}
	if slices.Equal(choose(all, 20, 8, "x"), some) || slices.Equal(choose(all, 20, 7, "y"), some) {
		t.Error("another seed or list gives the same cases")
	}
	if one := choose(all[:3], 20, 7, "x"); len(one) != 1 {
		t.Errorf("of three cases these are tried: %v", one)
	}
	if none := choose(all[:0], 20, 7, "x"); len(none) != 0 {
		t.Errorf("of no case these are tried: %v", none)
	}
	// Many seeds together try every case.
	tried := map[int]bool{}
	for seed := range uint64(200) {
		for _, i := range choose(all, 20, seed, "x") {
			tried[i] = true
		}
	}
	if len(tried) != len(all) {
		t.Errorf("200 seeds try %d of %d cases", len(tried), len(all))
	}
}

func TestEnvironment(t *testing.T) {
	for _, is := range []struct {
		sample, seed string
		tried        int
	}{{"", "", 40}, {"", "5", 40}, {"1", "5", 40}, {"20", "5", 2}} {
		t.Setenv("SAMPLE", is.sample)
		t.Setenv("SEED", is.seed)
		if some := Of(t, "cases", make([]int, 40)); len(some) != is.tried || Whole() != (is.tried == 40) {
			t.Errorf("SAMPLE=%s SEED=%s tries %d cases, all: %t", is.sample, is.seed, len(some), Whole())
		}
	}
	for _, wrong := range [][2]string{{"0", "1"}, {"-1", "1"}, {"x", "1"}, {"20", ""}, {"20", "x"}, {"20", "-1"}} {
		if _, _, err := parse(wrong[0], wrong[1]); err == nil {
			t.Errorf("SAMPLE=%s SEED=%s is no error", wrong[0], wrong[1])
		}
	}
}
