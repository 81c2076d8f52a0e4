package delay

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
)

// Mermaid draws a cascade as a Mermaid flowchart, from what its publishers know. It has the levels by their units, how
// long a message waits where, and its way from level to level. The queues of a level are one node. The shortcuts of a
// lookahead lead to the same queues, and are not drawn.
func Mermaid(entry string, s Scale) string {
	var chart strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&chart, format+"\n", args...) }
	top := s.Levels() - 1

	line("flowchart LR")
	line(`  publisher(["publisher"]) -- "a number for each level, then the address" --> E%d`, top)
	line(`  subgraph cascade["delays up to %s in steps of %s"]`, plaintext.Duration(s.Longest),
		plaintext.Duration(s.Resolution()))
	for level := top; level >= 0; level-- {
		name := unitInWords(s.unitOf(level))
		if level == top {
			name = mermaidText(entry) + "<br/>" + name
		}
		line(`    E%d{{"%s"}}`, level, name)
		if s.LargestNumber(level) > 0 {
			line(`    Q%d[("%s")]`, level, s.waits(level))
		}
	}
	line("  end")
	for level := top; level >= 0; level-- {
		next := fmt.Sprintf("E%d", level-1)
		if level == 0 {
			next = "delivery"
		}
		if most := s.LargestNumber(level); most > 0 {
			line(`  E%d -- "%s" --> Q%d`, level, between(1, most), level)
			line(`  Q%d -. "expired" .-> %s`, level, next)
		}
		line(`  E%d -- "0" --> %s`, level, next)
	}
	line(`  delivery{{"delivery exchange"}} --> applications(["queues of the applications"])`)
	return chart.String()
}

// waits says how long messages wait in the queues of a level: "1 s to 59 s, 59 queues".
func (s Scale) waits(level int) string {
	most := s.LargestNumber(level)
	return between(plaintext.Duration(s.TTL(level, 1)), plaintext.Duration(s.TTL(level, most))) + ", " +
		plaintext.Count(most, "queue")
}

// between is a range of values, or the value if it is only one.
func between[T comparable](first, last T) string {
	if first == last {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%v to %v", first, last)
}

// mermaidText makes a name stand for itself in a quoted label. All but letters, digits and what joins them becomes an
// entity code. So nothing is taken for Mermaid's own syntax, its directives (%%{…}%%), Markdown or HTML. Characters
// that cannot be seen are written out. So are blanks: "direction TB" takes effect even within quotes.
func mermaidText(name string) string {
	var text strings.Builder
	runes := []rune(plaintext.Line(name))
	plain := func(i int) bool {
		return i >= 0 && i < len(runes) && (unicode.IsLetter(runes[i]) || unicode.IsDigit(runes[i]))
	}
	for i, r := range runes {
		if plain(i) || strings.ContainsRune("._-", r) && plain(i-1) && plain(i+1) {
			text.WriteRune(r)
		} else {
			fmt.Fprintf(&text, "#%d;", r)
		}
	}
	return text.String()
}
