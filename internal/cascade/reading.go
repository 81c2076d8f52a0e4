package cascade

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// notThis says why an exchange is not the entry that was asked for. Other errors are the broker's.
type notThis string

func (e notThis) Error() string { return string(e) }

func notThisf(format string, args ...any) notThis { return notThis(fmt.Sprintf(format, args...)) }

const (
	errNoEntry notThis = "there is no such exchange"
	errNoHops  notThis = `it has no binding like that of a cascade's top level, with a key such as "1.#" or "0.1.*.*.#"`
)

func inMiddle(stars int) error {
	return notThisf("the keys of its bindings skip %d digits, so it is a level in the middle of a cascade", stars)
}

// hop is a binding with the key of a level exchange: a "*" for each digit that the levels above have
// looked at, zeros, and a 1 if it leads to a queue. At a strict entry a "*" follows for each digit left
// and one for the destination.
type hop struct {
	stars, zeros, tail int
	waits              bool
	to                 string
}

var hopKey = regexp.MustCompile(`^((?:\*\.)*)((?:0\.)*)(1\.)?((?:\*\.)*)#$`)

// hopsOf are the hops among the bindings of an exchange, and how many digits they skip. That is what
// most of them say, since others may have bound something beside; in doubt it is no entry.
func hopsOf(bindings []topology.Binding) (hops []hop, stars int) {
	count := map[int]int{}
	for _, b := range bindings {
		part := hopKey.FindStringSubmatch(b.RoutingKey)
		if part == nil || b.Arguments != "" {
			continue
		}
		words := func(i int) int { return strings.Count(part[i], ".") }
		h := hop{stars: words(1), zeros: words(2), tail: words(4), waits: part[3] != "", to: b.Destination}
		if h.digits() == 0 || h.stars > 0 && h.tail > 0 || h.waits != (b.DestinationType == topology.ToQueue) {
			continue
		}
		hops = append(hops, h)
		count[h.stars]++
	}
	for n := range count {
		if count[n] > count[stars] || count[n] == count[stars] && n > stars {
			stars = n
		}
	}
	return slices.DeleteFunc(hops, func(h hop) bool { return h.stars != stars }), stars
}

// digits is how many digits the hop looks at.
func (h hop) digits() int {
	if h.waits {
		return h.zeros + 1
	}
	return h.zeros
}

// reading is the attempt to understand an exchange as the entry of a cascade with so many levels.
type reading struct {
	*recognizer
	levels int
	hops   []hop // those of the entry
	// exchanges are the formats that fit all exchanges seen so far, the likeliest first.
	exchanges []Format
	queue     Format
	// waits are the names of the queues that level exchanges lead to, by the level that the key says.
	waits map[int][]string
	// ends counts where the keys that look at the last digit lead to. The lowest queue dead-letters to deadLetters.
	ends        map[string]int
	deadLetters string
	// highest is the highest level that shows hops, -1 for none, and first are these hops.
	highest   int
	first     []hop
	seen      map[int]string // exchanges by the level that their keys show
	sawLowest bool
	// shown is what so many queues agree on, sample the first of them. The lowest may be one of them.
	shown        shown
	agreed       int
	lowestAgrees bool
	sample       topology.Queue
	sampleLevel  int
}

// shown is what a single queue tells of the whole cascade.
type shown struct {
	resolution time.Duration
	queueType  QueueType
	maxLength  int64
}

// walk follows the bindings from the entry down to the delivery exchange. Where they are damaged, it looks
// for the next exchange by its name, and the keys there have to skip as many digits as there are levels above.
func (s *reading) walk(ctx context.Context) error {
	s.waits, s.ends, s.highest = map[int][]string{}, map[string]int{}, -1
	s.seen = map[int]string{}
	for level := s.levels - 1; level >= 0; {
		next, err := s.step(ctx, level)
		if err != nil {
			return err
		}
		level = next
	}
	// An entry that has lost all but its way past the queues.
	for level := s.levels - 2; level >= 0 && len(s.waits) == 0; level-- {
		if _, err := s.step(ctx, level); err != nil {
			return err
		}
	}
	return nil
}

// step notes where the hops of a level lead to, and returns the level that follows.
func (s *reading) step(ctx context.Context, level int) (next int, err error) {
	hops := s.hops
	if level < s.levels-1 {
		if hops, err = s.hopsAt(ctx, level); err != nil {
			return 0, err
		}
	}
	if len(hops) > 0 && s.highest < 0 {
		s.highest, s.first = level, hops
	}
	s.sawLowest = s.sawLowest || level == 0
	next = level - 1
	astray, follows, others := "", false, 0
	for _, h := range hops {
		to := level - h.zeros
		switch {
		case h.tail > 0 && h.digits()+h.tail != s.levels+1:
			others++
		case h.waits && to >= 0:
			s.waits[to] = append(s.waits[to], h.to)
		case h.waits:
			others++
		case to == -1:
			s.ends[h.to]++
			next, follows = to, true
		case to >= 0 && slices.Contains(names(s.exchanges, to), h.to):
			s.exchanges = with(s.exchanges, to, h.to)
			next, follows = min(next, to), true
		default:
			astray = h.to
		}
	}
	if others > 0 && others == len(hops) {
		return 0, notThisf("its keys are not those of an entry of %d levels, as its name has it", s.levels)
	}
	if astray != "" && !follows {
		return 0, notThisf("exchange %q is not called like the one below it, %q", s.exchanges[0].Name(level), astray)
	}
	return next, nil
}

// hopsAt are the hops of the level's exchange, if there is one.
func (s *reading) hopsAt(ctx context.Context, level int) ([]hop, error) {
	candidates := names(s.exchanges, level)
	for _, name := range candidates {
		bindings, err := s.look.BindingsFrom(ctx, name)
		if err != nil {
			return nil, err
		}
		hops, stars := hopsOf(bindings)
		switch {
		case len(hops) == 0:
		case stars == s.levels-1-level:
			s.exchanges, s.seen[level] = with(s.exchanges, level, name), name
			return hops, nil
		case len(candidates) == 1:
			return nil, notThisf("exchange %q would be %d levels below it, but its keys skip %d digits",
				name, s.levels-1-level, stars)
		}
	}
	return nil, nil
}

// readQueues finds the format that most queues have which level exchanges lead to, and reads off
// such queues what the whole cascade has.
func (s *reading) readQueues(ctx context.Context) error {
	var unlike error = notThis("no binding leads to a queue with the number of its level in its name")
	var found []reading
	var tried []Format
	for _, f := range s.queueFormats() {
		if slices.ContainsFunc(tried, func(other Format) bool { return sameNames([]Format{f, other}, s.levels) }) {
			continue
		}
		tried = append(tried, f)
		attempt := *s
		attempt.queue = f
		wrong, err := attempt.ask(ctx)
		switch {
		case err != nil:
			return err
		case wrong != "":
			unlike = wrong
		default:
			found = append(found, attempt)
		}
	}
	if len(found) == 0 {
		return unlike
	}
	// One queue alone may not show its format; then queues are called like exchanges.
	alike := func(a reading) bool { return len(s.hops) > 0 && slices.Contains(s.exchanges, a.queue) }
	best := slices.MaxFunc(found, func(a, b reading) int {
		if a.agreed != b.agreed || alike(a) == alike(b) {
			return a.agreed - b.agreed
		}
		if alike(a) {
			return 1
		}
		return -1
	})
	for _, other := range found {
		if other.queue != best.queue && other.agreed == best.agreed && !alike(best) {
			return notThisf("its queues can be called %q or %q, and nothing shows which", best.queue, other.queue)
		}
	}
	*s = best
	return nil
}

func (s *reading) queueFormats() []Format {
	fits := map[Format]int{}
	var formats []Format
	most := 0
	for level := s.levels - 1; level >= 0; level-- {
		for _, name := range s.waits[level] {
			for _, f := range formatsOf(name, level) {
				if fits[f] > 0 {
					continue
				}
				for at, there := range s.waits {
					if slices.Contains(there, f.Name(at)) {
						fits[f]++
					}
				}
				formats, most = append(formats, f), max(most, fits[f])
			}
		}
	}
	return slices.DeleteFunc(formats, func(f Format) bool { return fits[f] < most })
}

// ask reads queues until two agree.
func (s *reading) ask(ctx context.Context) (wrong notThis, err error) {
	votes := map[shown]int{}
	var lowest shown
	var order []shown
	samples := map[shown]topology.Queue{}
	levels := map[shown]int{}
	wrong = notThisf("there is no queue such as %q", s.queue.Name(s.levels-1))
	for _, level := range s.queueOrder() {
		q, exists, err := s.look.Queue(ctx, s.queue.Name(level))
		if err != nil {
			return "", err
		}
		if !exists {
			continue
		}
		says, unlike := s.show(q, level)
		if unlike != "" {
			wrong = notThisf("queue %q is not like that of level %d of %d: %s", q.Name, level, s.levels, unlike)
			continue
		}
		if level == 0 {
			lowest, s.deadLetters = says, q.DeadLetterExchange()
		} else {
			s.exchanges = with(s.exchanges, level-1, q.DeadLetterExchange())
		}
		if votes[says]++; votes[says] == 1 {
			order, samples[says], levels[says] = append(order, says), q, level
		}
		if votes[says] > 1 && sameNames(s.exchanges, s.levels) {
			break
		}
	}
	if len(order) == 0 {
		return wrong, nil
	}
	s.shown = slices.MaxFunc(order, func(a, b shown) int { return votes[a] - votes[b] })
	for _, other := range order {
		if votes[other] == votes[s.shown] && other.resolution != s.shown.resolution {
			return notThisf("its queues do not agree on the x-message-ttl of the lowest level, which can be %s or %s",
				s.shown.resolution, other.resolution), nil
		}
	}
	s.agreed, s.lowestAgrees = votes[s.shown], lowest == s.shown
	s.sample, s.sampleLevel = samples[s.shown], levels[s.shown]
	return "", nil
}

// queueOrder has first what shows most, then the levels whose numbers show padding.
func (s *reading) queueOrder() []int {
	top := s.levels - 1
	order := []int{top}
	if top > 0 {
		order = append(order, 0)
	}
	for level := min(top-1, 9); level > 0; level-- {
		order = append(order, level)
	}
	for level := top - 1; level > 9; level-- {
		order = append(order, level)
	}
	return order
}

// show is what a queue tells, if it is like that of the level.
func (s *reading) show(queue topology.Queue, level int) (says shown, unlike string) {
	ttl, expires := queue.Arguments["x-message-ttl"].(int64)
	step := ttl >> level
	to := queue.DeadLetterExchange()
	says = shown{resolution: time.Duration(step) * time.Millisecond, queueType: QueueType(queue.Type())}
	if limit, ok := queue.Arguments["x-max-length"].(int64); ok && says.queueType == Quorum {
		says.maxLength = limit
	}
	switch {
	case !expires || ttl < 1 || ttl > MaxTTL.Milliseconds():
		return says, "it has no valid x-message-ttl"
	case step<<level != ttl:
		return says, fmt.Sprintf("its x-message-ttl of %d is no whole number of milliseconds times a power of two", ttl)
	case to == "":
		return says, "it has no x-dead-letter-exchange"
	case level == 0 && s.isLevel(to), level > 0 && !slices.Contains(names(s.exchanges, level-1), to):
		return says, fmt.Sprintf("its x-dead-letter-exchange is %q", to)
	case says.queueType != Quorum && says.queueType != Classic:
		return says, fmt.Sprintf("it is a %s queue, and those of a cascade are quorum or classic", says.queueType)
	}
	return says, ""
}

func (s *reading) isLevel(exchange string) bool {
	for level := range s.levels {
		if slices.Contains(names(s.exchanges, level), exchange) {
			return true
		}
	}
	return false
}

// settleExchanges finds out by the names of lower exchanges whether the numbers are padded.
func (s *reading) settleExchanges(ctx context.Context) error {
	for level := min(s.levels-2, 9); level >= 0 && !sameNames(s.exchanges, s.levels); level-- {
		if _, err := s.hopsAt(ctx, level); err != nil {
			return err
		}
	}
	if !sameNames(s.exchanges, s.levels) {
		return notThisf("its exchanges can be called %q or %q, and nothing shows which", s.exchanges[0], s.exchanges[1])
	}
	return nil
}

func (s *reading) config() Config {
	return Config{
		Vhost: s.vhost, Levels: s.levels,
		Resolution: s.shown.resolution, QueueType: s.shown.queueType, MaxLength: s.shown.maxLength,
		ExchangeName: s.exchanges[0], QueueName: s.queue,
	}
}

// prove makes sure of the number of levels and of the end, and fills in what the keys at the entry say.
// An entry that says nothing was one if the exchange below proves it; then it is taken to be strict.
func (s *reading) prove(ctx context.Context, c *Config) (err error) {
	if c.DeliveryExchange, err = s.delivery(ctx, c); err != nil {
		return err
	}
	if len(s.hops) == 0 {
		if err := s.proveMissing(ctx, c); err != nil {
			return err
		}
	}
	own, strict := 0, 0
	for _, h := range s.first {
		to := s.highest - h.zeros
		if to < -1 || !h.waits && c.exchange(to) != h.to || h.waits && (to < 0 || c.QueueName.Name(to) != h.to) {
			continue
		}
		own++
		if h.tail > 0 {
			strict++
		}
		c.Lookahead = max(c.Lookahead, h.digits())
	}
	if own == 0 {
		return notThis("none of its bindings leads to what else there is of a cascade")
	}
	c.StrictKeys = len(s.hops) == 0 || 2*strict >= own
	if c.Lookahead == s.highest+1 {
		c.Lookahead = s.levels
	}
	switch {
	case strict > 0 && c.StrictKeys:
	case s.continues(c):
		return notThisf("it goes on below exchange %q with exchange %q", c.exchange(0), c.DeliveryExchange)
	case s.ends[c.DeliveryExchange] == 0 && (s.agreed < 2 || !s.lowestAgrees):
		return notThis("no key shows how many levels it has")
	}
	return nil
}

// proveMissing makes sure of an entry that shows nothing: an exchange below has keys that skip its digit,
// its name can come from no other entry, it is a level of no other cascade, and two queues agree.
func (s *reading) proveMissing(ctx context.Context, c *Config) error {
	switch {
	case s.highest < 0:
		return errNoHops
	case s.agreed < 2:
		return notThis("no two queues below it agree on what they are")
	}
	name := c.exchange(s.highest)
	formats := formatsOf(name, s.highest)
	for level, name := range s.seen {
		formats = with(formats, level, name)
	}
	if slices.Contains(formats, s.queue) {
		formats = []Format{s.queue} // that all names have in common
	}
	if entries := names(formats, s.levels-1); len(entries) > 1 || entries[0] != c.exchange(s.levels-1) {
		return notThisf("exchange %q could be that below %s", name, orList(entries))
	}
	owner, err := s.owner(ctx, name, s.levels-1-s.highest)
	switch {
	case err != nil:
		return err
	case owner != "":
		return notThisf("exchange %q is a level of another cascade", name)
	case s.entry.Name == "":
		s.entry, _, err = s.look.Exchange(ctx, name) // which has the same alternate exchange
	}
	return err
}

// continues tells whether the delivery exchange is called like the level below the lowest. Then these
// are the upper levels of a longer cascade.
func (s *reading) continues(c *Config) bool {
	for level := 1; level < MaxLevels; level++ {
		if len(with(formatsOf(c.exchange(0), level), level-1, c.DeliveryExchange)) > 0 {
			return true
		}
	}
	return false
}

// delivery is the exchange that most keys lead to which look at the last digit, and the lowest queue.
func (s *reading) delivery(ctx context.Context, c *Config) (string, error) {
	most := func() (best []string) {
		count := map[string]int{}
		for name, n := range s.ends {
			if !s.isLevel(name) {
				count[name] = n
			}
		}
		if s.deadLetters != "" {
			count[s.deadLetters]++
		}
		for name, n := range count {
			if len(best) > 0 && n < count[best[0]] {
				continue
			}
			if len(best) > 0 && n > count[best[0]] {
				best = nil
			}
			best = append(best, name)
		}
		return best
	}
	best := most()
	if len(best) != 1 && !s.sawLowest {
		if _, err := s.step(ctx, 0); err != nil {
			return "", err
		}
		best = most()
	}
	if len(best) == 1 && best[0] != "" {
		return best[0], nil
	}
	return "", notThisf("nothing shows its delivery exchange: queue %q and exchange %q do not lead to one and the same",
		c.QueueName.Name(0), c.exchange(0))
}
