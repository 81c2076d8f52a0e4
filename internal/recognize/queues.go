package recognize

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// isLike tells whether both are of one cascade, whatever else their arguments are.
func (s shown) isLike(other shown) bool {
	return s.base == other.base && s.resolution == other.resolution && s.queueType == other.queueType
}

// poll reads the queue at one of the places. It is false if there are not so many.
func (c *candidate) poll(i int) bool {
	if i >= len(c.places) {
		return false
	}
	at := c.places[i]
	name := c.queue(at)
	q := c.objects.queue(name)
	says, wrong := c.inspect(at, q)
	switch {
	case q.Name == "": // which shows no more than a damaged one
		c.wrong++
		c.unlike = cmp.Or(c.unlike, error(notThisf("there is no queue such as %q", name)))
		return true
	case wrong != "":
		c.wrong++
		c.unlike = notThisf("queue %q is not like that of level %d of %d: %s", name, at.level, c.Levels, wrong)
		return true
	case at.level == 0:
		c.countEnd(q.DeadLetterExchange())
	}
	c.right++
	for _, each := range says {
		known := slices.IndexFunc(c.claims, func(known claim) bool { return known.shown == each })
		if known < 0 {
			known = len(c.claims)
			c.claims = append(c.claims, claim{shown: each})
		}
		c.claims[known].by = append(c.claims[known].by, at)
	}
	return true
}

// inspect reads off a queue what it tells in each base that it fits, or why it is not like that of the place.
func (c *candidate) inspect(at place, q topology.Queue) (says []shown, wrong string) {
	to, ttl, highest := q.DeadLetterExchange(), q.TTLMillis(), c.Base
	if c.Levels == 1 {
		highest = c.lowest // in any other base, a single level has the same times
	}
	each := shown{queueType: delay.QueueType(q.Type()), QuorumOptions: delay.QuorumOptionsOf(q),
		arguments: delay.QueueArgumentsOf(q).JSON()}
	if !c.IsUniform() {
		says = append(says, each)
	}
	for base := c.lowest; base <= highest && c.IsUniform(); base++ {
		if steps := at.steps(base); ttl%steps == 0 {
			each.base, each.resolution = base, time.Duration(ttl/steps)*time.Millisecond
			says = append(says, each)
		}
	}
	switch {
	case ttl < 1 || ttl > delay.MaxTTL.Milliseconds():
		return nil, "it has no valid x-message-ttl"
	case !c.IsUniform() && ttl != c.ttl(at).Milliseconds():
		return nil, fmt.Sprintf("its x-message-ttl is %d, and its binding and its name have %d", ttl,
			c.ttl(at).Milliseconds())
	case len(says) == 0:
		return nil, fmt.Sprintf("its x-message-ttl of %d is no whole number of milliseconds times %d", ttl,
			at.steps(c.lowest))
	case to == "":
		return nil, "it has no x-dead-letter-exchange"
	case at.level == 0 && c.isLevel(to), at.level > 0 && to != c.Exchange(at.level-1):
		return nil, fmt.Sprintf("its x-dead-letter-exchange is %q", to)
	case q.Type() != string(delay.Quorum) && q.Type() != string(delay.Classic):
		return nil, fmt.Sprintf("it is a %s queue, and those of a cascade are quorum or classic",
			plaintext.Line(q.Type()))
	}
	return says, ""
}

// isSound tells whether the queue at a place is there, and like that of a cascade.
func (c *candidate) isSound(at place) bool {
	_, wrong := c.inspect(at, c.objects.queue(c.queue(at)))
	return wrong == ""
}

// longest is where messages wait longest of all queues that there are, with units. A queue may have lost its binding.
func (c *candidate) longest() place {
	bound := c.longestBound()
	for level := c.Levels - 1; level >= bound.level; level-- {
		longest := place{level: level}
		if level == bound.level {
			longest = bound
		}
		for next := (place{level, longest.number + 1}); c.has(next) && c.isSound(next); next.number++ {
			longest = next
		}
		if longest.number > 0 {
			return longest
		}
	}
	return bound
}

// steps is how many steps of the resolution a message waits there in the base.
func (p place) steps(base int) int64 {
	return delay.Uniform{Base: base}.Steps(p.level, p.number)
}

// agreed is what most queues claim. The first one is of the lowest base. Where queues have different arguments, these
// are the arguments of most of them.
func (c *candidate) agreed() claim {
	return slices.MaxFunc(c.claims, func(x, y claim) int {
		return cmp.Or(len(c.alike(x))-len(c.alike(y)), len(x.by)-len(y.by))
	})
}

// alike are the queues that claim the same, whatever their arguments are.
func (c *candidate) alike(as claim) (by []place) {
	for _, each := range c.claims {
		if each.isLike(as.shown) {
			by = append(by, each.by...)
		}
	}
	return by
}

// disputes are the claims of as many other queues.
func (c *candidate) disputes() []claim {
	agreed := c.agreed()
	by := c.alike(agreed)
	return slices.DeleteFunc(slices.Clone(c.claims), func(other claim) bool {
		others := c.alike(other)
		return len(others) < len(by) || slices.Equal(others, by)
	})
}

// disagreement is the error of queues of which as many claim one thing as another.
func (c *candidate) disagreement() error {
	agreed, disputes := c.agreed(), c.disputes()
	for _, other := range disputes {
		if other.resolution != agreed.resolution {
			return notThisf("its queues do not agree on the x-message-ttl of the lowest level, which can be %s or %s",
				delay.DurationText(agreed.resolution), delay.DurationText(other.resolution))
		}
	}
	if len(disputes) > 0 {
		return notThisf("its queues do not agree on their type: queue %q is of type %s, and queue %q of type %s",
			c.queue(agreed.by[0]), agreed.queueType, c.queue(disputes[0].by[0]), disputes[0].queueType)
	}
	return nil
}

// support is how many more queues agree than do not.
func (c *candidate) support() int {
	if len(c.claims) == 0 {
		return -c.wrong
	}
	return 2*len(c.alike(c.agreed())) - c.right - c.wrong
}

// isProven tells whether queues of two levels agree, or all there is to know.
func (c *candidate) isProven() bool {
	if len(c.claims) == 0 || len(c.disputes()) > 0 {
		return false
	}
	by := c.agreed().by
	oneLevel := !slices.ContainsFunc(c.places, func(at place) bool { return at.level != by[0].level })
	differs := func(at place) bool { return at.level != by[0].level || oneLevel && at.number != by[0].number }
	return slices.ContainsFunc(by, differs) || len(c.places) == 1
}

// provesLevels tells whether two queues agree, one of which is of the lowest level.
func (c *candidate) provesLevels() bool {
	lowest := func(at place) bool { return at.level == 0 }
	return c.Levels > 1 && c.isProven() && slices.ContainsFunc(c.agreed().by, lowest)
}
