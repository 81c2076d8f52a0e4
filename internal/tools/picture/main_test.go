package main

import (
	"strings"
	"testing"
)

func TestPicture(t *testing.T) {
	got := picture("  \x1b[1mA & B\x1b[0m\n\x1b[32m+\x1b[0m\x1b[0m c\n")
	for _, want := range []string{`>  <tspan style="font-weight:bold">A &amp; B</tspan></text>`,
		`><tspan style="fill:#23d18b">+</tspan> c</text>`, `width="88" height="68"`} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %s in\n%s", want, got)
		}
	}
}

func TestWithoutLegend(t *testing.T) {
	for plan, want := range map[string]string{
		"  ~ update\n\nTerraform will perform the following actions:\n\n  # a\n": "  # a\n",
		"No changes.\n": "No changes.\n",
	} {
		if got := withoutLegend(plan); got != want {
			t.Errorf("of %q is left %q", plan, got)
		}
	}
}
