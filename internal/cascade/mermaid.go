package cascade

import (
	"fmt"
	"strings"
	"unicode"
)

// Mermaid draws the cascade as a Mermaid flowchart: every exchange and queue by its name, how long a
// message waits in which queue, and its way from level to level. The shortcuts of a lookahead are
// named and not drawn: they lead to the same queues, and 28 levels have more than 400 of them. An
// error is of type Errors.
func Mermaid(config Config) (string, error) {
	c, err := config.Resolve()
	if err != nil {
		return "", err
	}
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
	line(`  publisher(["publisher"]) -- "%d-digit delay, then the destination" --> %s`, c.Levels, name(top))
	line(`  subgraph cascade["%s"]`, c.mermaidTitle())
	for level := top; level >= 0; level-- {
		line(`    %s{{"%s"}}`, name(level), mermaidText(c.exchange(level)))
		line(`    Q%d[("%s<br/>%s, %s")]`, level, mermaidText(c.QueueName.Name(level)), c.QueueType, c.TTL(level))
	}
	if c.CreateDeliveryExchange {
		line(`    delivery{{"%s"}}`, mermaidText(c.DeliveryExchange))
	}
	line("  end")
	if !c.CreateDeliveryExchange {
		line(`  delivery{{"%s"}}`, mermaidText(c.DeliveryExchange))
	}
	for level := top; level >= 0; level-- {
		line(`  %s -- "1" --> Q%d`, name(level), level)
		line(`  %s -- "0" --> %s`, name(level), name(level-1))
		line(`  Q%d -. "expired" .-> %s`, level, name(level-1))
	}
	line(`  delivery --> applications(["queues of the applications"])`)
	if c.ParkUnroutable {
		line(`  cascade -. "no binding" .-> XU{{"%s"}}`, mermaidText(c.parts().parking()))
		line(`  XU --> QU[("%s<br/>%s")]`, mermaidText(c.parts().parking()), c.QueueType)
	}
	return chart.String(), nil
}

func (c Config) mermaidTitle() string {
	title := fmt.Sprintf("vhost %s, delays up to %s in steps of %s", mermaidText(c.Vhost), c.MaxDelay, c.Resolution)
	if c.Lookahead > 1 {
		title += fmt.Sprintf("<br/>lookahead %d, straight to the queue of the next 1", c.Lookahead)
	}
	return title
}

// mermaidText makes a name stand for itself in a quoted label. All but letters, digits and what joins
// them becomes an entity code, so that nothing is taken for Mermaid's own syntax, its directives
// (%%{…}%%), Markdown or HTML. Blanks too: "direction TB" takes effect even within quotes.
func mermaidText(name string) string {
	var text strings.Builder
	runes := []rune(name)
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
