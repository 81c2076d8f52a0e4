package delay

import "testing"

func TestMermaidText(t *testing.T) {
	for name, want := range map[string]string{
		"tasks.delay-03":        "tasks.delay-03",
		"Bestellung_für.東京":     "Bestellung_für.東京",
		`say "hi"`:              "say#32;#34;hi#34;",
		"a#b;":                  "a#35;b#59;",
		"#quot;":                "#35;quot#59;",
		"]})|<br/>&amp;":        "#93;#125;#41;#124;#60;br#47;#62;#38;amp#59;",
		"`md`":                  "#96;md#96;",
		"%%{init: {}}%%":        "#37;#37;#123;init#58;#32;#123;#125;#125;#37;#37;",
		"direction TB":          "direction#32;TB",
		"end":                   "end",
		"style:x":               "style#58;x",
		"- 1. item":             "#45;#32;1#46;#32;item",
		"_a_":                   "#95;a#95;",
		"😀":                     "#128512;",
		"NServiceBus@machine\\": "NServiceBus#64;machine#92;",
		"\x1b[2J\n\u202ea":      `#92;x1b#91;2J#92;n#92;u202ea`,
	} {
		if got := mermaidText(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
