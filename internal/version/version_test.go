package version

import "testing"

func TestCompare(t *testing.T) {
	for version, want := range map[string]struct{ atLeast, before bool }{
		"3.10.8": {before: true}, "4.0.5": {before: true}, "4.2.9": {before: true}, "4.3.0": {atLeast: true},
		"4.3.6": {atLeast: true}, "4.10.0": {atLeast: true}, "5.0.0-rc.1": {atLeast: true},
		"4.3.0-rc.1": {atLeast: true}, "4.4.0-rc.1": {atLeast: true}, "4.4.0+1.gabc": {atLeast: true},
		"4.2.0-beta.4": {before: true},
		"":             {},
		"unknown":      {},
	} {
		if atLeast, before := AtLeast(version, 4, 3), Before(version, 4, 3); atLeast != want.atLeast ||
			before != want.before {
			t.Errorf("%q: at least 4.3 is %t, and before 4.3 %t", version, atLeast, before)
		}
	}
}
