package recognize

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay/delaytest"
)

// Every format of exchanges gives each of them a name from which it can be found again.
func TestExchangeFormats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		format := delaytest.AnyFormat().Draw(t, "format")
		level := rapid.IntRange(0, delay.MaxLevels-1).Draw(t, "level")
		name := format.Name(level)
		found := false
		for _, f := range exchangeFormats(name, level) {
			if f.Check() != nil || f.Name(level) != name {
				t.Fatalf("%q has the format %q, which makes it %q", name, f, f.Name(level))
			}
			found = found || f.Same(format, delay.MaxLevels)
		}
		if !found {
			t.Fatalf("%q is not among the formats of %q", format, name)
		}
	})
}
