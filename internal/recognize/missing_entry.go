package recognize

import (
	"slices"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// cascadeBelow is the one whose entry is missing, or shows nothing, as long as the exchange below proves it. Otherwise
// the error is the given one.
func (o *objects) cascadeBelow(entry string, missing error) (delay.Cascade, error) {
	c, err := o.firstOf(entry, o.provesEntry)
	if err != nil {
		return c, missing
	}
	return c, nil
}

// provesEntry tells whether the highest exchange that shows something can be below no other entry. Two queues agree,
// all names have one format, and the exchange is a level of no other cascade.
func (o *objects) provesEntry(c *candidate) bool {
	below, top := c.exchanges.Name(c.highest), c.levels-1
	formats := slices.DeleteFunc(exchangeFormats(below, c.highest), func(f delay.Format) bool {
		for level := range c.followed {
			if f.Name(level) != c.exchanges.Name(level) {
				return true
			}
		}
		return false
	})
	if at := slices.IndexFunc(formats, c.queues.like); at >= 0 {
		formats = formats[at : at+1] // what all names have in common
	}
	other := func(f delay.Format) bool { return f.Name(top) != c.exchanges.Name(top) }
	return c.proven && !slices.ContainsFunc(formats, other) && o.entryAbove(below) == ""
}
