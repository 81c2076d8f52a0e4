package delay_test

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay/delaytest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

func TestMermaid(t *testing.T) {
	for name, test := range map[string]struct {
		config delay.Config
		want   string
	}{
		"defaults": {delay.Config{Vhost: "/", Name: "tasks", Levels: 2, CreateDeliveryExchange: true,
			StrictKeys: true, InternalLevels: true, ParkUnroutable: true}, `flowchart LR
  publisher(["publisher"]) -- "2-digit delay, then the address" --> E1
  subgraph cascade["vhost #47;, delays up to 3 s in steps of 1 s<br/>lookahead 2, straight to the queue of the next 1"]
    E1{{"tasks.delay-01"}}
    Q1[("tasks.delay-01<br/>quorum, 2 s")]
    E0{{"tasks.delay-00"}}
    Q0[("tasks.delay-00<br/>quorum, 1 s")]
    delivery{{"tasks.delivery"}}
  end
  E1 -- "1" --> Q1
  E1 -- "0" --> E0
  Q1 -. "expired" .-> E0
  E0 -- "1" --> Q0
  E0 -- "0" --> delivery
  Q0 -. "expired" .-> delivery
  delivery --> applications(["queues of the applications"])
  cascade -. "no binding" .-> XU{{"tasks.unroutable"}}
  XU --> QU[("tasks.unroutable<br/>quorum")]
`},
		"a classic chain": {delay.Config{Vhost: "a b", Name: "end", Levels: 1, Lookahead: 1,
			DeliveryExchange: "amq.topic",
			QueueType:        delay.Classic}, `flowchart LR
  publisher(["publisher"]) -- "1-digit delay, then the address" --> E0
  subgraph cascade["vhost a#32;b, delays up to 1 s in steps of 1 s"]
    E0{{"end.delay-00"}}
    Q0[("end.delay-00<br/>classic, 1 s")]
  end
  delivery{{"amq.topic"}}
  E0 -- "1" --> Q0
  E0 -- "0" --> delivery
  Q0 -. "expired" .-> delivery
  delivery --> applications(["queues of the applications"])
`},
	} {
		if got := delaytest.Resolve(t, test.config).Mermaid(); got != test.want {
			t.Errorf("%s: got\n%s", name, got)
		}
	}
	_, err := delay.Config{Name: "t", Levels: 40}.Resolve()
	if err == nil || !strings.Contains(err.Error(), "levels is 40") {
		t.Errorf("40 levels: %v", err)
	}
}

// mermaidLine are the statements of a flowchart that a diagram is made of, each as strict as it is written. In
// a label there are letters, digits, dots, hyphens and underscores between them, and entity codes.
var mermaidLine = func() []*regexp.Regexp {
	const (
		id    = `(?:publisher|delivery|applications|cascade|XU|QU|E\d+|Q\d+(?:_[1-9])?)`
		name  = `(?:[\p{L}\p{Nd}]|#\d+;|[._-])+`
		label = `"[\p{L}\p{Nd} ,._-]+"`
	)
	var lines []*regexp.Regexp
	for _, statement := range []string{
		`flowchart LR`,
		`  end`,
		`  subgraph cascade\["vhost ` + name + `, delays up to \w[\w. ]* in steps of [\w. ]+(?:<br/>lookahead \d+, ` +
			`straight to the queue of the next (?:1|digit but 0))?"\]`,
		` {2,4}` + id + `\{\{"(` + name + `)"\}\}`,
		`    Q\d+(?:_[1-9])?\[\("(` + name + `)<br/>(?:quorum|classic), [\w. ]+"\)\]`,
		`  ` + id + `(?:\(\[` + label + `\]\))? (?:-->|-- ` + label + ` -->|-\. ` + label + ` \.->) ` + id + `(?:\(\[` +
			label + `\]\)|\{\{"(` + name + `)"\}\}|\[\("(` + name + `)<br/>(?:quorum|classic)"\)\])?`,
	} {
		lines = append(lines, regexp.MustCompile(`^`+statement+`$`))
	}
	return lines
}()

var entity = regexp.MustCompile(`#(\d+);`)

// Whatever the names are, the diagram consists of known statements. It shows exactly the names, as plain text, that the
// cascade has, and the ways that it has with a lookahead of 1.
func TestMermaidOfAnyCascade(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := delaytest.AnyConfig().Draw(t, "config")
		chart := delaytest.Resolve(t, config).Mermaid()
		names := map[string]string{} // by node
		shown := 0
		for line := range strings.SplitSeq(strings.TrimSuffix(chart, "\n"), "\n") {
			for _, name := range namesIn(t, line) {
				names[regexp.MustCompile(`\w+(?:\{\{|\[\()`).FindString(line)] = name
				shown++
			}
		}
		config.Lookahead = 1
		c := delaytest.Resolve(t, config)
		chain := c.Expand()
		want := len(chain.Exchanges) + len(chain.Queues)
		if !config.CreateDeliveryExchange {
			want++
		}
		if shown != want {
			t.Fatalf("%d names are shown, want %d: %q", shown, want, names)
		}
		for binding := range chain.Bindings {
			if binding.DestinationType != topology.ToQueue || binding.RoutingKey == "#" {
				continue
			}
			level, digit, queue := nodeOf(c, binding)
			way := fmt.Sprintf("  E%d -- \"%s\" --> %s\n", level, digit, queue)
			if !strings.Contains(chart, way) || names[fmt.Sprintf("E%d{{", level)] != plaintext.Line(
				binding.Source) || names[queue+"[("] != plaintext.Line(binding.Destination) {
				t.Fatalf("%v is not shown as %q: %q", binding, way, names)
			}
		}
	})
}

// nodeOf is what a chain's binding leads to, and the node of the queue.
func nodeOf(c delay.Cascade, b topology.Binding) (level int, digit, queue string) {
	at := strings.IndexFunc(b.RoutingKey, func(r rune) bool { return r != '*' && r != '.' })
	level, digit = c.Levels-1-at/len("*."), b.RoutingKey[at:at+1]
	if c.Base == 2 {
		return level, digit, fmt.Sprintf("Q%d", level)
	}
	return level, digit, fmt.Sprintf("Q%d_%s", level, digit)
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
			if name != "" {
				names = append(names, html.UnescapeString(entity.ReplaceAllString(name, "&#$1;")))
			}
		}
	}
	if !matched {
		t.Fatalf("no statement of a flowchart: %q", line)
	}
	return names
}
