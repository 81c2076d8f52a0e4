package delay

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
)

// Mermaid draws the cascade as a Mermaid flowchart: every exchange and queue, each wait, and the way of a message from
// level to level. The chart names the shortcuts of a lookahead, and does not draw them. They lead to the same queues,
// and 28 levels have more than 400 of them.
func (c Cascade) Mermaid() string {
	var chart strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&chart, format+"\n", args...) }
	name := func(level int) string { // of a level's exchange within the diagram
		if level < 0 {
			return "delivery"
		}
		return fmt.Sprintf("E%d", level)
	}
	top := c.Levels - 1

	line("flowchart LR")
	queue := func(q Queue) string { // within the diagram
		if c.Base == DefaultBase {
			return fmt.Sprintf("Q%d", q.Level)
		}
		return fmt.Sprintf("Q%d_%d", q.Level, q.Number)
	}
	delay := fmt.Sprintf("%d-digit delay%s", c.Levels, c.uniform().inBase())
	if len(c.Units) > 0 {
		delay = unitWords(c.Units)
	}
	line(`  publisher(["publisher"]) -- "%s, then the address" --> %s`, delay, name(top))
	line(`  subgraph cascade["%s"]`, c.mermaidTitle())
	for level := top; level >= 0; level-- {
		line(`    %s{{"%s"}}`, name(level), mermaidText(c.Exchange(level)))
		for _, q := range c.DelayQueues(level) {
			line(`    %s[("%s<br/>%s, %s")]`, queue(q), mermaidText(q.Name), c.QueueType,
				plaintext.Duration(q.TTL))
		}
	}
	if c.CreateDeliveryExchange {
		line(`    delivery{{"%s"}}`, mermaidText(c.DeliveryExchange))
	}
	line("  end")
	if !c.CreateDeliveryExchange {
		line(`  delivery{{"%s"}}`, mermaidText(c.DeliveryExchange))
	}
	for level := top; level >= 0; level-- {
		for _, q := range c.DelayQueues(level) {
			line(`  %s -- "%d" --> %s`, name(level), q.Number, queue(q))
		}
		line(`  %s -- "0" --> %s`, name(level), name(level-1))
		for _, q := range c.DelayQueues(level) {
			line(`  %s -. "expired" .-> %s`, queue(q), name(level-1))
		}
	}
	line(`  delivery --> applications(["queues of the applications"])`)
	if c.ParkUnroutable {
		line(`  cascade -. "no binding" .-> XU{{"%s"}}`, mermaidText(c.shared().parking()))
		line(`  XU --> QU[("%s<br/>%s")]`, mermaidText(c.shared().parking()), c.QueueType)
	}
	return chart.String()
}

func (c Cascade) mermaidTitle() string {
	title := fmt.Sprintf("vhost %s, delays up to %s in steps of %s", mermaidText(c.Vhost),
		plaintext.Duration(c.MaxDelay),
		plaintext.Duration(c.Scale().Resolution()))
	if c.Lookahead > 1 {
		next := "1"
		if c.Base != DefaultBase {
			next = "digit but 0"
		}
		title += fmt.Sprintf("<br/>lookahead %d, straight to the queue of the next %s", c.Lookahead, next)
	}
	return title
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
