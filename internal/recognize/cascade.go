package recognize

import (
	"cmp"
	"regexp"
	"slices"
	"sync"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
)

const errNoHops notThis = "it has no binding like that of a cascade's top level, with a key such as \"1.#\" or " +
	"\"0.1.*.*.#\""

// cascade is the one whose entry the exchange is, as its own bindings show.
func (o *objects) cascade(entry string) (delay.Cascade, error) {
	if o.cascades[entry] == nil {
		o.cascades[entry] = sync.OnceValues(func() (delay.Cascade, error) { return o.readCascade(entry) })
	}
	return o.cascades[entry]()
}

func (o *objects) readCascade(entry string) (delay.Cascade, error) {
	if err := o.checkEntry(entry); err != nil {
		return delay.Cascade{}, err
	}
	hops, above := o.hops(entry)
	switch {
	case above > 0:
		return delay.Cascade{}, notThisf("the keys of its bindings skip %s, so it is a level in the middle of a "+
			"cascade", plaintext.Count(above, "word"))
	case len(hops) == 0:
		return delay.Cascade{}, errNoHops
	}
	c, err := o.likeliest(entry)
	if err != nil {
		return delay.Cascade{}, err
	}
	return c.cascade()
}

// cascadeBelow is the one whose entry is missing, or shows nothing, as long as the exchange below proves it. Otherwise
// the error is the given one.
func (o *objects) cascadeBelow(entry string, missing error) (delay.Cascade, error) {
	if c, err := o.likeliest(entry); err == nil && c.provesEntry() {
		if found, err := c.cascade(); err == nil {
			return found, nil
		}
	}
	return delay.Cascade{}, missing
}

// provesEntry tells whether the highest exchange that shows something can be below no other entry. Two queues agree,
// all names have one format, and the exchange is a level of no other cascade.
func (c *candidate) provesEntry() bool {
	top := c.Levels - 1
	below := c.Exchange(c.highest())
	if !c.IsUniform() {
		isThere := c.objects.exchange(c.Exchange(top)).Name != ""
		return c.isProven() && (isThere || c.longest().level == top) && c.objects.entryAbove(below) == ""
	}
	formats := slices.DeleteFunc(exchangeFormats(below, c.highest()), func(f delay.Format) bool {
		for level, hops := range c.hops {
			if len(hops) > 0 && f.Name(level) != c.Exchange(level) {
				return true
			}
		}
		return false
	})
	if at := slices.IndexFunc(formats, c.queuesLike); at >= 0 {
		formats = formats[at : at+1] // what all names have in common
	}
	other := func(f delay.Format) bool { return f.Name(top) != c.Exchange(top) }
	return c.isProven() && !slices.ContainsFunc(formats, other) && c.objects.entryAbove(below) == ""
}

// likeliest is one of all ways to read the name of the entry. Most of the bindings fit it, and most of the queues agree
// with it. It reads queues for as long as there is a doubt.
func (o *objects) likeliest(entry string) (*candidate, error) {
	var all []*candidate
	for _, named := range layouts(entry) {
		all = append(all, o.candidates(named)...)
	}
	if len(all) == 0 {
		return nil, notThis("its name has neither the number of a level nor units")
	}
	all = topRanked(all, (*candidate).fit)
	if all[0].contradiction != nil {
		// Of those that are equally wrong, the one with most levels has most to say of the keys.
		most := slices.MaxFunc(all, func(x, y *candidate) int { return cmp.Compare(x.Levels, y.Levels) })
		return nil, most.contradiction
	}
	best, rival := all[0], all[0].rival(all)
	for i, more := 0, true; more && (rival != nil || !best.isProven() || best.end() == ""); i++ {
		more = false
		for _, c := range all {
			more = c.poll(i) || more
		}
		likeliest := topRanked(all, (*candidate).support)
		best, rival = likeliest[0], likeliest[0].rival(likeliest)
		if !more && rival != nil { // one queue alone may not show its format
			likeliest = topRanked(topRanked(likeliest, (*candidate).fitAll), func(c *candidate) int {
				switch {
				case c.queuesLike(c.ExchangeName):
					return 2
				case c.Base == delay.DefaultBase:
					return 1
				}
				return 0
			})
			best, rival = likeliest[0], likeliest[0].rival(likeliest)
		}
	}
	switch {
	case len(best.claims) == 0:
		return nil, best.unlike
	case rival != nil:
		return nil, best.mistakable(rival)
	case best.disagreement() != nil:
		return nil, best.disagreement()
	}
	return best, best.readEnd()
}

// rival is one of the candidates that gives other names to something.
func (c *candidate) rival(all []*candidate) *candidate {
	for _, other := range all {
		if !sameExchanges(other.Cascade, c.Cascade) || !c.sameQueues(other) {
			return other
		}
	}
	return nil
}

// mistakable says in what a rival differs to which as much leads.
func (c *candidate) mistakable(rival *candidate) error {
	switch {
	case rival.Levels != c.Levels:
		return notThis("no key shows how many levels it has")
	case !sameExchanges(rival.Cascade, c.Cascade):
		return notThisf("its exchanges can be called %q or %q, and nothing shows which", c.ExchangeName,
			rival.ExchangeName)
	}
	return notThisf("its queues can be called %q or %q, and nothing shows which", c.QueueName, rival.QueueName)
}

// cascade is what the candidate has turned out to be. Lookahead and strictness are those of the highest level that
// shows some. A strict key proves the number of levels. An entry that shows nothing is taken to be strict.
func (c *candidate) cascade() (delay.Cascade, error) {
	own, strictKeys, lookahead, highest := 0, 0, 0, c.highest()
	for _, h := range c.hops[highest] {
		if c.isOwn(highest, h) {
			own++
			strictKeys += min(h.Below, 1)
			lookahead = max(lookahead, h.Words())
		}
	}
	if lookahead == highest+1 {
		lookahead = c.Levels
	}
	reachesEnd := func(h hop) bool { return h.Number == 0 && h.to == c.end() }
	switch {
	case own == 0:
		return delay.Cascade{}, notThis("none of its bindings leads to what else there is of a cascade")
	case strictKeys == 0 && c.continues():
		return delay.Cascade{}, notThisf("it goes on below exchange %q with exchange %q", c.Exchange(0), c.end())
	case c.Levels == 1 && c.continues() && c.furtherKey() != "":
		return delay.Cascade{}, notThisf("its keys are those of one level, and exchange %q, to which they lead, "+
			"goes on to a delay queue with key %q"+seeGuide+"a cascade beside it", c.end(), c.furtherKey())
	case strictKeys == 0 && !slices.ContainsFunc(slices.Concat(c.hops...), reachesEnd) && !c.provesLevels():
		return delay.Cascade{}, notThis("no key shows how many levels it has")
	}
	return c.complete(lookahead, highest < c.Levels-1 || 2*strictKeys >= own)
}

// furtherKey is the key by which the end of a single level leads on to a further delay queue, empty if there is none.
func (c *candidate) furtherKey() string {
	return c.objects.keyToDelay(c.end(), furtherDigit.MatchString)
}

// furtherDigit begins the key of a second level.
var furtherDigit = regexp.MustCompile(`^\*\.[0-9]+\.`)

// continues tells whether the end is called like a level below the lowest. Then these are the upper levels of a longer
// cascade.
func (c *candidate) continues() bool {
	if !c.IsUniform() {
		return false // the name of an exchange has the units of all that are below it
	}
	for level := 1; level < delay.MaxLevels; level++ {
		like := func(f delay.Format) bool { return f.Name(level-1) == c.end() }
		if slices.ContainsFunc(exchangeFormats(c.Exchange(0), level), like) {
			return true
		}
	}
	return false
}

// entryAbove is the entry of the cascade that the keys of an exchange show it to be a level of. It is empty if there is
// none. With units, those above can be days, hours, minutes, seconds and milliseconds.
func (o *objects) entryAbove(name string) string {
	hops, above := o.hops(name)
	for level := 0; len(hops) > 0 && level+above < delay.MaxLevels; level++ {
		for _, format := range exchangeFormats(name, level) {
			entry := format.Name(level + above)
			if c, err := o.cascade(entry); err == nil && c.Levels == level+above+1 && c.Exchange(level) == name {
				return entry
			}
		}
	}
	if len(hops) == 0 {
		return ""
	}
	for _, lower := range unitLayouts(name) {
		for _, longer := range extended(lower, above) {
			entry := longer.Exchange(longer.Levels - 1)
			if c, err := o.cascade(entry); err == nil && c.Exchange(lower.Levels-1) == name {
				return entry
			}
		}
	}
	return ""
}
