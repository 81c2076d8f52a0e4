package delay_test

import (
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay/delaytest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
)

func TestMermaid(t *testing.T) {
	for name, test := range map[string]struct {
		entry    string
		units    []int64
		maxDelay int64
		want     string
	}{
		"units": {"orders.d.h.m.s", clockMS, 10_799_000, `flowchart LR
  publisher(["publisher"]) -- "a number for each level, then the address" --> E3
  subgraph cascade["delays up to 2 h 59 min 59 s in steps of 1 s"]
    E3{{"orders.d.h.m.s<br/>days"}}
    E2{{"hours"}}
    Q2[("1 h to 2 h, 2 queues")]
    E1{{"minutes"}}
    Q1[("1 min to 59 min, 59 queues")]
    E0{{"seconds"}}
    Q0[("1 s to 59 s, 59 queues")]
  end
  E3 -- "0" --> E2
  E2 -- "1 to 2" --> Q2
  Q2 -. "expired" .-> E1
  E2 -- "0" --> E1
  E1 -- "1 to 59" --> Q1
  Q1 -. "expired" .-> E0
  E1 -- "0" --> E0
  E0 -- "1 to 59" --> Q0
  Q0 -. "expired" .-> delivery
  E0 -- "0" --> delivery
  delivery{{"delivery exchange"}} --> applications(["queues of the applications"])
`},
		"base 2": {"end", []int64{16_384_000, 8_192_000}, 24_576_000, `flowchart LR
  publisher(["publisher"]) -- "a number for each level, then the address" --> E1
  subgraph cascade["delays up to 6 h 49 min 36 s in steps of 2 h 16 min 32 s"]
    E1{{"end<br/>16384 s"}}
    Q1[("4 h 33 min 4 s, 1 queue")]
    E0{{"8192 s"}}
    Q0[("2 h 16 min 32 s, 1 queue")]
  end
  E1 -- "1" --> Q1
  Q1 -. "expired" .-> E0
  E1 -- "0" --> E0
  E0 -- "1" --> Q0
  Q0 -. "expired" .-> delivery
  E0 -- "0" --> delivery
  delivery{{"delivery exchange"}} --> applications(["queues of the applications"])
`},
		"base 10": {"a b", []int64{1500}, 13_500, `flowchart LR
  publisher(["publisher"]) -- "a number for each level, then the address" --> E0
  subgraph cascade["delays up to 13.5 s in steps of 1.5 s"]
    E0{{"a#32;b<br/>1500 ms"}}
    Q0[("1.5 s to 13.5 s, 9 queues")]
  end
  E0 -- "1 to 9" --> Q0
  Q0 -. "expired" .-> delivery
  E0 -- "0" --> delivery
  delivery{{"delivery exchange"}} --> applications(["queues of the applications"])
`},
	} {
		s, err := delay.PublisherScale(test.units, test.maxDelay)
		if err != nil {
			t.Fatal(err)
		}
		if got := delay.Mermaid(test.entry, s); got != test.want {
			t.Errorf("%s: got\n%s", name, got)
		}
	}
}

// mermaidLine are the statements of a flowchart that a diagram is made of, each as strict as it is written. In
// a label there are letters, digits, dots, hyphens and underscores between them, and entity codes.
var mermaidLine = func() []*regexp.Regexp {
	const (
		id    = `(?:publisher|delivery|applications|cascade|E\d+|Q\d+)`
		name  = `(?:[\p{L}\p{Nd}]|#\d+;|[._-])+`
		label = `"[\p{L}\p{Nd} ,._-]+"`
	)
	var lines []*regexp.Regexp
	for _, statement := range []string{
		`flowchart LR`,
		`  end`,
		`  subgraph cascade\["delays up to \w[\w. ]* in steps of [\w. ]+"\]`,
		`    E\d+\{\{"(` + name + `)<br/>[\w ]+"\}\}`,
		`    E\d+\{\{"[\w ]+"\}\}`,
		`    Q\d+\[\("[\w. ]+, \d+ queues?"\)\]`,
		`  ` + id + `(?:\(\[` + label + `\]\)|\{\{` + label + `\}\})? (?:-->|-- ` + label + ` -->|-\. ` + label +
			` \.->) ` + id + `(?:\(\[` + label + `\]\))?`,
	} {
		lines = append(lines, regexp.MustCompile(`^`+statement+`$`))
	}
	return lines
}()

var entity = regexp.MustCompile(`#(\d+);`)

// Whatever the name and the delays are, the diagram consists of known statements. It shows the name once, as plain
// text. Each number of each level has its way to a queue, and all ways end at the delivery exchange.
func TestMermaidOfAnyCascade(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entry := delaytest.AnyText(1).Draw(t, "entry")
		s := anyScale(t)
		chart := delay.Mermaid(entry, s)
		var names []string
		for line := range strings.SplitSeq(strings.TrimSuffix(chart, "\n"), "\n") {
			names = append(names, namesIn(t, line)...)
		}
		if !slices.Equal(names, []string{plaintext.Line(entry)}) {
			t.Fatalf("the chart names %q, want %q", names, entry)
		}
		ways := 2 // to the entry, and to the applications
		for level := range s.Levels() {
			expected := linesOf(s, level)
			ways += max(1, len(expected)-1) // one of them is a node
			for _, line := range expected {
				if !strings.Contains(chart, line) {
					t.Fatalf("there is no %q in\n%s", line, chart)
				}
			}
		}
		if got := strings.Count(chart, ">") - strings.Count(chart, "<br/>"); got != ways {
			t.Fatalf("%d ways are drawn, want %d:\n%s", got, ways, chart)
		}
	})
}

// linesOf are the ways from the exchange of a level, and the node of its queues.
func linesOf(s delay.Scale, level int) []string {
	next := "delivery"
	if level > 0 {
		next = fmt.Sprintf("E%d", level-1)
	}
	past := fmt.Sprintf("  E%d -- \"0\" --> %s\n", level, next)
	expired := fmt.Sprintf("  Q%d -. \"expired\" .-> %s\n", level, next)
	shortest, most := plaintext.Duration(s.TTL(level, 1)), s.LargestNumber(level)
	switch most {
	case 0:
		return []string{past}
	case 1:
		return []string{past, expired, fmt.Sprintf("  E%d -- \"1\" --> Q%d\n", level, level),
			fmt.Sprintf("    Q%d[(\"%s, 1 queue\")]\n", level, shortest)}
	}
	return []string{past, expired, fmt.Sprintf("  E%d -- \"1 to %d\" --> Q%d\n", level, most, level),
		fmt.Sprintf("    Q%d[(\"%s to %s, %d queues\")]\n", level, shortest, plaintext.Duration(s.TTL(level, most)),
			most)}
}

// anyScale draws the scales of all forms.
func anyScale(t *rapid.T) delay.Scale {
	if rapid.Bool().Draw(t, "uniform") {
		return delaytest.AnyUniform().Draw(t, "scale").Scale()
	}
	units := []int64{1}
	for range rapid.IntRange(0, 4).Draw(t, "units") {
		unit := units[len(units)-1] * rapid.SampledFrom([]int64{2, 7, 24, 60, 1000}).Draw(t, "times")
		if unit > delay.MaxTTL.Milliseconds() {
			break
		}
		units = append(units, unit)
	}
	slices.Reverse(units)
	s, err := delay.PublisherScale(units, rapid.Int64Range(1, delay.MaxTTL.Milliseconds()).Draw(t, "longest"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// namesIn are the names that a known statement shows, as Mermaid hands them to the browser.
func namesIn(t delaytest.Tester, line string) (names []string) {
	t.Helper()
	matched := false
	for _, statement := range mermaidLine {
		found := statement.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		matched = true
		for _, name := range found[1:] {
			names = append(names, html.UnescapeString(entity.ReplaceAllString(name, "&#$1;")))
		}
	}
	if !matched {
		t.Fatalf("no statement of a flowchart: %q", line)
	}
	return names
}
