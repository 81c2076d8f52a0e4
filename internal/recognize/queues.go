package recognize

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
)

// like tells whether queues are called like exchanges with the format.
func (n naming) like(exchange delay.Format) bool {
	return exchange == n.format || n.base == anyBase && strings.HasPrefix(string(n.format), string(exchange))
}

// places are those of all digits below the base. Those that show most come first: the top level, then the lowest ones,
// whose numbers show padding.
func (c *candidate) places(base int) []place {
	var all []place
	for digit := 1; digit < base; digit++ {
		for i := range c.levels {
			all = append(all, place{(i + c.levels - 1) % c.levels, digit})
		}
	}
	return all
}

// namings are what most queues can be called to which keys lead, those of base 2 first.
func (c *candidate) namings() []naming {
	var all, most []naming
	fits, lowest := map[naming]int{}, map[naming]int{}
	for _, at := range c.places(anyBase) {
		for _, name := range c.waits[at] {
			for _, n := range namingsOf(name, at) {
				if fits[n]++; fits[n] == 1 {
					all = append(all, n)
				}
				lowest[n] = max(n.lowest, at.digit+1)
			}
		}
	}
	slices.SortStableFunc(all, func(x, y naming) int {
		return cmp.Or(cmp.Compare(fits[y], fits[x]), cmp.Compare(x.base, y.base))
	})
	for _, n := range all {
		if fits[n] == fits[all[0]] && !slices.ContainsFunc(most, n.isSame(c.levels)) {
			most = append(most, naming{n.format, lowest[n], n.base})
		}
	}
	return most
}

// namingsOf are those by which a queue can have the name, the likeliest first.
func namingsOf(name string, at place) []naming {
	var all []naming
	for _, f := range exchangeFormats(name, at.level) {
		if at.digit < delay.DefaultBase {
			all = append(all, naming{f, delay.DefaultBase, delay.DefaultBase})
		}
	}
	for _, f := range queueFormats(name, at) {
		all = append(all, naming{f, delay.DefaultBase + 1, anyBase})
	}
	return all
}

// isSame tells whether another naming gives the same names to the queues of so many levels.
func (n naming) isSame(levels int) func(naming) bool {
	return func(other naming) bool {
		return n.base == other.base && n.format.SameQueues(other.format, n.base, levels)
	}
}

// readQueues finds out how the queues are called, and reads off some of them what the whole cascade has.
func (c *candidate) readQueues() error {
	var unlike error = notThis("no binding leads to a queue with the number of its level in its name")
	var open []candidate
	all := c.namings()
	for _, n := range all {
		trial := *c
		trial.queues, trial.seen = n, maps.Clone(c.seen)
		switch err := trial.poll(all); {
		case err != nil:
			unlike = err
		case trial.proven && !trial.hasRival(all):
			*c = trial
			return nil
		default:
			open = append(open, trial)
		}
	}
	// One queue alone may not show its format; then queues are called like exchanges.
	alike := func(x candidate) bool { return x.highest == x.levels-1 && x.queues.like(x.exchanges) }
	likeliest := max(0, slices.IndexFunc(open, alike))
	switch {
	case len(open) == 0:
		return unlike
	case len(open) > 1 && !alike(open[likeliest]):
		return notThisf("its queues can be called %q or %q, and nothing shows which", open[0].queues.format,
			open[1].queues.format)
	}
	*c = open[likeliest]
	return nil
}

// hasRival tells whether another naming gives the same names to the samples.
func (c *candidate) hasRival(all []naming) bool {
	differs := func(n naming) bool {
		return slices.ContainsFunc(c.samples, func(s sample) bool { return n.name(s.place) != s.queue.Name })
	}
	return slices.ContainsFunc(all, func(n naming) bool {
		return n != c.queues && n.base == c.queues.base && !differs(n)
	})
}

// shows is what the sample tells in the base, and nothing where its TTL is none of the base.
func (s sample) shows(base int) shown {
	ttl, steps := s.queue.TTLMillis(), s.steps(base)
	if ttl%steps != 0 {
		return shown{}
	}
	return shown{base, time.Duration(ttl/steps) * time.Millisecond, delay.QueueType(s.queue.Type()),
		delay.QuorumOptionsOf(s.queue)}
}

// steps is how many steps of the resolution a message waits there in the base.
func (p place) steps(base int) int64 {
	return int64(delay.Scale{Base: base, Resolution: 1}.TTL(p.level, p.digit))
}

// poll reads queues until two of different levels agree, which proves the base, and nothing else has their names.
func (c *candidate) poll(all []naming) error {
	c.deadLetters = map[string]int{}
	unlike := notThisf("there is no queue such as %q", c.queues.name(place{c.levels - 1, 1}))
	for _, at := range c.places(c.queues.lowest) {
		s := sample{at, c.objects.queue(c.queues.name(at))}
		if s.queue.Name == "" {
			continue
		}
		if wrong := c.inspect(s); wrong != "" {
			unlike = notThisf("queue %q is not like that of level %d of %d: %s", s.queue.Name, at.level, c.levels,
				wrong)
			continue
		}
		c.samples = append(c.samples, s)
		if c.compare(s); c.proven && c.rival() == "" && !c.hasRival(all) {
			return nil
		}
	}
	switch {
	case len(c.samples) == 0:
		return unlike
	case !c.proven:
		return c.takeFirst()
	}
	return nil
}

// inspect notes where a queue leads to. It says what keeps the queue from being like that of the level.
func (c *candidate) inspect(s sample) (wrong string) {
	to, ttl, base := s.queue.DeadLetterExchange(), s.queue.TTLMillis(), c.queues.lowest
	for base <= c.queues.base && s.shows(base).base == 0 {
		base++
	}
	switch {
	case ttl < 1 || ttl > delay.MaxTTL.Milliseconds():
		return "it has no valid x-message-ttl"
	case base > delay.DefaultBase && c.queues.base == delay.DefaultBase:
		return fmt.Sprintf("its x-message-ttl of %d is no whole number of milliseconds times a power of two", ttl)
	case base > c.queues.base:
		return fmt.Sprintf("its x-message-ttl of %d is no whole number of milliseconds times %d", ttl,
			s.steps(c.queues.lowest))
	case to == "":
		return "it has no x-dead-letter-exchange"
	case s.level == 0 && c.isLevel(to), s.level > 0 && to != c.exchanges.Name(s.level-1):
		return fmt.Sprintf("its x-dead-letter-exchange is %q", to)
	case s.queue.Type() != string(delay.Quorum) && s.queue.Type() != string(delay.Classic):
		return fmt.Sprintf("it is a %s queue, and those of a cascade are quorum or classic",
			plaintext.Line(s.queue.Type()))
	case s.level == 0:
		c.deadLetters[to]++
	default:
		c.seen[s.level-1] = true
	}
	return ""
}

// compare looks for a sample of another level that says the same in one of the bases.
func (c *candidate) compare(with sample) {
	for base := c.queues.lowest; base <= c.queues.base && !c.proven; base++ {
		for _, s := range c.samples {
			says, isOther := s.shows(base), s.level != with.level || c.levels == 1 && s.digit != with.digit
			if says.base > 0 && says == with.shows(base) && isOther {
				c.agreed, c.first, c.proven = says, s.queue, true
				c.toLowest = c.levels > 1 && (s.level == 0 || with.level == 0)
			}
		}
	}
}

// takeFirst takes what the first sample says in the lowest base, unless another one says something else.
func (c *candidate) takeFirst() error {
	first, base := c.samples[0], c.queues.lowest
	for first.shows(base).base == 0 {
		base++
	}
	c.agreed, c.first, c.proven = first.shows(base), first.queue, len(c.places(c.queues.lowest)) == 1
	for _, s := range c.samples {
		if other := s.shows(base).resolution; other > 0 && other != c.agreed.resolution {
			return notThisf("its queues do not agree on the x-message-ttl of the lowest level, which can be %s or %s",
				c.agreed.resolution, other)
		}
	}
	return nil
}
