package engine

import "testing"

func TestIsAtLeast(t *testing.T) {
	for version, want := range map[string]bool{
		"3.10.8": false, "4.0.5": false, "4.2.9": false, "4.3.0": true, "4.3.6": true, "4.10.0": true,
		"5.0.0-rc.1": true, "": false, "unknown": false,
	} {
		if got := isAtLeast(version, 4, 3); got != want {
			t.Errorf("%q: got %t", version, got)
		}
	}
}
