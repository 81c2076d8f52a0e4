package cascade

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// attempt is one to understand an exchange as the entry of a cascade with so many levels.
type attempt struct {
	*recognizer
	levels int
	hops   []hop // those of the entry
	// exchanges are the formats that fit all exchanges seen so far, the likeliest first.
	exchanges []Format
	queues
	// waits are the names of the queues that level exchanges lead to, by what the key says.
	waits map[place][]string
	// ends counts where the keys that look at the last digit lead to, and deadLetters where the lowest queues do.
	ends        map[string]int
	deadLetters map[string]int
	// highest is the highest level that shows hops, -1 for none, and first are these hops.
	highest   int
	first     []hop
	seen      map[int]string // exchanges by the level that their keys show
	sawLowest bool
	// agreed is what most queues agree on.
	agreed   vote
	delivery string
	// lookahead and strictKeys are what the keys of the entry say, or those of the highest level that shows hops.
	lookahead  int
	strictKeys bool
}

// shown is what a single queue tells of the whole cascade.
type shown struct {
	resolution time.Duration
	queueType  QueueType
	QuorumOptions
}

// place is where a message waits that has the digit at the level.
type place struct{ level, digit int }

// compare puts the top level first.
func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(other.level, p.level), cmp.Compare(p.digit, other.digit))
}

// queues are those of a cascade in the base.
type queues struct {
	base  int
	queue Format
}

func (q queues) name(at place) string { return q.queue.queue(q.base, at.level, at.digit) }

// have tells whether the cascade has a queue for the digit.
func (q queues) have(digit int) bool { return digit > 0 && digit < q.base }

// like tells whether queues are called like exchanges with the format.
func (q queues) like(exchange Format) bool {
	return exchange == q.queue || q.base != DefaultBase && strings.HasPrefix(string(q.queue), string(exchange))
}

// vote is what so many queues agree on, of these levels. The first of them is that of the level.
type vote struct {
	shown
	queues int
	levels map[int]bool
	first  topology.Queue
	level  int
}

// read understands the entry as that of a cascade with so many levels.
func (a *attempt) read(ctx context.Context) (Cascade, error) {
	for _, step := range []func(context.Context) error{a.walk, a.readQueues, a.settleExchanges, a.findDelivery,
		a.proveLevels} {
		if err := step(ctx); err != nil {
			return Cascade{}, err
		}
	}
	given, err := a.config(ctx)
	if err != nil {
		return Cascade{}, err
	}
	c, err := given.Resolve()
	if err != nil {
		return Cascade{}, notThisf("its objects do not make a valid cascade: %s", err)
	}
	if c, err = a.recognizePreset(ctx, c); err == nil && c.Preset == "" {
		c.InternalLevels, err = a.internalLevels(ctx)
	}
	return c, err
}

// walk follows the bindings from the entry down to the delivery exchange. Where they are damaged, it looks for the next
// exchange by its name. The keys there have to skip as many digits as there are levels above.
func (a *attempt) walk(ctx context.Context) error {
	a.waits, a.ends, a.highest = map[place][]string{}, map[string]int{}, -1
	a.seen = map[int]string{}
	for level := a.levels - 1; level >= 0; {
		next, err := a.step(ctx, level)
		if err != nil {
			return err
		}
		level = next
	}
	// An entry that has lost all but its way past the queues.
	for level := a.levels - 2; level >= 0 && len(a.waits) == 0; level-- {
		if _, err := a.step(ctx, level); err != nil {
			return err
		}
	}
	return nil
}

// step notes where the hops of a level lead to, and returns the level that follows.
func (a *attempt) step(ctx context.Context, level int) (next int, err error) {
	hops := a.hops
	if level < a.levels-1 {
		if hops, err = a.hopsAt(ctx, level); err != nil {
			return 0, err
		}
	}
	if len(hops) > 0 && a.highest < 0 {
		a.highest, a.first = level, hops
	}
	a.sawLowest = a.sawLowest || level == 0
	next = level - 1
	astray, follows, others := "", false, 0
	for _, h := range hops {
		to := level - h.zeros
		switch {
		case h.tail > 0 && h.digits()+h.tail != a.levels+1:
			others++
		case h.waits() && to >= 0:
			at := place{to, h.digit}
			a.waits[at] = append(a.waits[at], h.to)
		case h.waits():
			others++
		case to == -1:
			a.ends[h.to]++
			next, follows = to, true
		case to >= 0 && slices.Contains(names(a.exchanges, to), h.to):
			a.exchanges = with(a.exchanges, to, h.to)
			next, follows = min(next, to), true
		default:
			astray = h.to
		}
	}
	if others > 0 && others == len(hops) {
		return 0, notThisf("its keys are not those of an entry of %d levels, as its name has it", a.levels)
	}
	if astray != "" && !follows {
		return 0, notThisf("exchange %q is not called like the one below it, %q", a.exchanges[0].Name(level), astray)
	}
	return next, nil
}

// hopsAt are the hops of the level's exchange, if there is one.
func (a *attempt) hopsAt(ctx context.Context, level int) ([]hop, error) {
	candidates := names(a.exchanges, level)
	for _, name := range candidates {
		bindings, err := a.look.BindingsFrom(ctx, name)
		if err != nil {
			return nil, err
		}
		hops, stars := hopsOf(bindings)
		switch {
		case len(hops) == 0:
		case stars == a.levels-1-level:
			a.exchanges, a.seen[level] = with(a.exchanges, level, name), name
			return hops, nil
		case len(candidates) == 1:
			return nil, notThisf("exchange %q would be %d levels below it, but its keys skip %d digit(s)",
				name, a.levels-1-level, stars)
		}
	}
	return nil, nil
}

// readQueues finds the format that most queues have which level exchanges lead to, and reads off
// such queues what the whole cascade has.
func (a *attempt) readQueues(ctx context.Context) error {
	var unlike error = notThis("no binding leads to a queue with the number of its level in its name")
	var found []attempt
	var tried []queues
	for _, q := range a.queueFormats() {
		same := func(other queues) bool {
			return q.base == other.base && q.queue.SameQueues(other.queue, q.base, a.levels)
		}
		binary := func(x attempt) bool { return q.base != DefaultBase && x.base == DefaultBase && x.provesBase() }
		if slices.ContainsFunc(tried, same) || slices.ContainsFunc(found, binary) {
			continue
		}
		tried = append(tried, q)
		trial, wrong, err := a.tryBases(ctx, q)
		switch {
		case err != nil:
			return err
		case wrong != "":
			unlike = wrong
		default:
			found = append(found, trial)
		}
	}
	if len(found) == 0 {
		return unlike
	}
	// One queue alone may not show its format; then queues are called like exchanges.
	alike := func(x attempt) bool { return len(a.hops) > 0 && slices.ContainsFunc(a.exchanges, x.like) }
	rank := func(x attempt) int {
		if alike(x) {
			return 2*len(x.agreed.levels) + 1
		}
		return 2 * len(x.agreed.levels)
	}
	best := slices.MaxFunc(found, func(x, y attempt) int { return rank(x) - rank(y) })
	for _, other := range found {
		if other.queue != best.queue && rank(other) == rank(best) && !alike(best) {
			return notThisf("its queues can be called %q or %q, and nothing shows which", best.queue, other.queue)
		}
	}
	*a = best
	return nil
}

// tryBases asks the queues in their base and, where a second verb allows it and nothing proves this one, in those
// above.
func (a *attempt) tryBases(ctx context.Context, q queues) (best attempt, wrong notThis, err error) {
	highest := q.base
	if q.base != DefaultBase {
		highest = MaxBase
	}
	for ; q.base <= highest && a.levels <= (Scale{q.base, 1, time.Millisecond}).mostLevels(); q.base++ {
		trial := *a
		trial.queues = q
		unlike, err := trial.ask(ctx)
		switch {
		case err != nil:
			return best, "", err
		case unlike == "" && trial.provesBase():
			return trial, "", nil
		case unlike == "" && best.base == 0:
			best = trial
		case wrong == "":
			wrong = unlike
		}
	}
	switch {
	case best.base != 0:
		wrong = ""
	case wrong == "":
		wrong = notThisf("no base of %d or more has %d levels", q.base, a.levels)
	}
	return best, wrong, nil
}

// provesBase tells whether queues agree that could do so in no other base.
func (a *attempt) provesBase() bool { return len(a.agreed.levels) > 1 || a.levels == 1 }

// queueFormats are what most queues can be called which level exchanges lead to, the likeliest first. A format with a
// verb for the digit comes with the smallest base that has all the digits.
func (a *attempt) queueFormats() []queues {
	var all []queues
	fits, most := map[queues]int{}, 0
	for _, at := range slices.SortedFunc(maps.Keys(a.waits), place.compare) {
		for _, name := range a.waits[at] {
			for _, q := range queuesOf(name, at) {
				if fits[q] == 0 {
					fits[q] = a.fits(q)
					all, most = append(all, q), max(most, fits[q])
				}
			}
		}
	}
	all = slices.DeleteFunc(all, func(q queues) bool { return fits[q] < most })
	for i, q := range all {
		all[i].base = a.smallestBase(q)
	}
	slices.SortStableFunc(all, func(x, y queues) int { return cmp.Compare(x.base, y.base) })
	return all
}

// queuesOf are the queues, in base 2 or the largest one, of which one would have the name.
func queuesOf(name string, at place) []queues {
	var all []queues
	if at.digit < DefaultBase {
		for _, f := range formatsOf(name, at.level) {
			all = append(all, queues{DefaultBase, f})
		}
	}
	for _, f := range queueFormatsOf(name, at) {
		all = append(all, queues{MaxBase, f})
	}
	return all
}

// fits counts the queues with their names.
func (a *attempt) fits(q queues) (fits int) {
	for at, there := range a.waits {
		if q.have(at.digit) && slices.Contains(there, q.name(at)) {
			fits++
		}
	}
	return fits
}

// smallestBase is the one that has all the digits of queues with their names.
func (a *attempt) smallestBase(q queues) int {
	if q.base == DefaultBase {
		return DefaultBase
	}
	base := DefaultBase + 1
	for at, there := range a.waits {
		if slices.Contains(there, q.name(at)) {
			base = max(base, at.digit+1)
		}
	}
	return base
}

// ask reads queues until two levels agree.
func (a *attempt) ask(ctx context.Context) (wrong notThis, err error) {
	var votes []vote
	a.deadLetters = map[string]int{}
	wrong = notThisf("there is no queue such as %q", a.name(place{a.levels - 1, 1}))
	for _, at := range a.queueOrder() {
		q, exists, err := a.look.Queue(ctx, a.name(at))
		if err != nil {
			return "", err
		}
		if !exists {
			continue
		}
		says, unlike := a.show(q, at)
		if unlike != "" {
			wrong = notThisf("queue %q is not like that of level %d of %d: %s", q.Name, at.level, a.levels, unlike)
			continue
		}
		if at.level == 0 {
			a.deadLetters[q.DeadLetterExchange()]++
		} else {
			a.exchanges = with(a.exchanges, at.level-1, q.DeadLetterExchange())
		}
		v := count(&votes, says, q, at.level)
		if v.queues > 1 && (len(v.levels) > 1 || a.levels == 1) && sameNames(a.exchanges, a.levels) {
			break
		}
	}
	if len(votes) == 0 {
		return wrong, nil
	}
	a.agreed = slices.MaxFunc(votes, func(x, y vote) int { return x.queues - y.queues })
	for _, other := range votes {
		if other.queues == a.agreed.queues && other.resolution != a.agreed.resolution {
			return notThisf("its queues do not agree on the x-message-ttl of the lowest level, which can be %s or %s",
				a.agreed.resolution, other.resolution), nil
		}
	}
	return "", nil
}

// count adds what a queue of the level says to the votes.
func count(votes *[]vote, says shown, q topology.Queue, level int) vote {
	at := slices.IndexFunc(*votes, func(v vote) bool { return v.shown == says })
	if at < 0 {
		at = len(*votes)
		*votes = append(*votes, vote{shown: says, first: q, level: level, levels: map[int]bool{}})
	}
	v := &(*votes)[at]
	v.queues++
	v.levels[level] = true
	return *v
}

// queueOrder has first what shows most, then the levels whose numbers show padding, digit by digit.
func (a *attempt) queueOrder() []place {
	top := a.levels - 1
	levels := []int{top}
	if top > 0 {
		levels = append(levels, 0)
	}
	for level := min(top-1, 9); level > 0; level-- {
		levels = append(levels, level)
	}
	for level := top - 1; level > 9; level-- {
		levels = append(levels, level)
	}
	var order []place
	for digit := 1; digit < a.base; digit++ {
		for _, level := range levels {
			order = append(order, place{level, digit})
		}
	}
	return order
}

// show is what a queue tells, if it is like that of the level.
func (a *attempt) show(queue topology.Queue, at place) (says shown, unlike string) {
	ttl, expires := queue.Arguments["x-message-ttl"].(int64)
	steps := Scale{Base: a.base}.weight(at.level) * int64(at.digit)
	step := ttl / steps
	to := queue.DeadLetterExchange()
	says = shown{resolution: time.Duration(step) * time.Millisecond, queueType: QueueType(queue.Type()),
		QuorumOptions: quorumOptionsOf(queue)}
	switch {
	case !expires || ttl < 1 || ttl > MaxTTL.Milliseconds():
		return says, "it has no valid x-message-ttl"
	case step*steps != ttl && a.base == DefaultBase:
		return says, fmt.Sprintf("its x-message-ttl of %d is no whole number of milliseconds times a power of two", ttl)
	case step*steps != ttl:
		return says, fmt.Sprintf("its x-message-ttl of %d is no whole number of milliseconds times %d", ttl, steps)
	case to == "":
		return says, "it has no x-dead-letter-exchange"
	case at.level == 0 && a.isLevel(to),
		at.level > 0 && !slices.Contains(names(a.exchanges, at.level-1), to):
		return says, fmt.Sprintf("its x-dead-letter-exchange is %q", to)
	case says.queueType != Quorum && says.queueType != Classic:
		return says, fmt.Sprintf("it is a %s queue, and those of a cascade are quorum or classic",
			plaintext.Line(string(says.queueType)))
	}
	return says, ""
}

func (a *attempt) isLevel(exchange string) bool {
	for level := range a.levels {
		if slices.Contains(names(a.exchanges, level), exchange) {
			return true
		}
	}
	return false
}

// settleExchanges finds out by the names of lower exchanges whether the numbers are padded.
func (a *attempt) settleExchanges(ctx context.Context) error {
	for level := min(a.levels-2, 9); level >= 0 && !sameNames(a.exchanges, a.levels); level-- {
		if _, err := a.hopsAt(ctx, level); err != nil {
			return err
		}
	}
	if !sameNames(a.exchanges, a.levels) {
		return notThisf("its exchanges can be called %q or %q, and nothing shows which", a.exchanges[0], a.exchanges[1])
	}
	return nil
}

// findDelivery finds the exchange that most keys lead to which look at the last digit, and the lowest queue.
func (a *attempt) findDelivery(ctx context.Context) error {
	likeliest := a.likeliestDelivery()
	if len(likeliest) != 1 && !a.sawLowest {
		if _, err := a.step(ctx, 0); err != nil {
			return err
		}
		likeliest = a.likeliestDelivery()
	}
	if len(likeliest) != 1 || likeliest[0] == "" {
		return notThisf("nothing shows its delivery exchange: queue %q and exchange %q do not lead to one and the same",
			a.name(place{0, 1}), a.exchange(0))
	}
	a.delivery = likeliest[0]
	return nil
}

// likeliestDelivery are the exchanges to which as many keys and queues lead as to no other.
func (a *attempt) likeliestDelivery() []string {
	count := map[string]int{}
	for name, n := range a.ends {
		if !a.isLevel(name) {
			count[name] = n
		}
	}
	for name, n := range a.deadLetters {
		count[name] += n
	}
	most := 0
	for _, n := range count {
		most = max(most, n)
	}
	maps.DeleteFunc(count, func(_ string, n int) bool { return n < most })
	return slices.Collect(maps.Keys(count))
}

// exchange is the name of the exchange of the level; below level 0 it is the delivery exchange.
func (a *attempt) exchange(level int) string {
	if level < 0 {
		return a.delivery
	}
	return a.exchanges[0].Name(level)
}

// proveLevels makes sure of the number of levels, and reads what the keys at the entry say.
// An entry that says nothing was one if the exchange below proves it; then it is taken to be strict.
func (a *attempt) proveLevels(ctx context.Context) error {
	if len(a.hops) == 0 {
		if err := a.proveMissing(ctx); err != nil {
			return err
		}
	}
	proven, err := a.readKeys()
	switch {
	case err != nil || proven:
		return err
	case a.continues():
		return notThisf("it goes on below exchange %q with exchange %q", a.exchange(0), a.delivery)
	case a.ends[a.delivery] == 0 && (len(a.agreed.levels) < 2 || !a.agreed.levels[0]):
		return notThis("no key shows how many levels it has")
	}
	return nil
}

// readKeys reads lookahead and strictness off the hops of the highest level that shows some. A strict key proves how
// many levels there are.
func (a *attempt) readKeys() (proven bool, err error) {
	own, strict := 0, 0
	for _, h := range a.first {
		if !a.isOwn(h) {
			continue
		}
		own++
		if h.tail > 0 {
			strict++
		}
		a.lookahead = max(a.lookahead, h.digits())
	}
	if own == 0 {
		return false, notThis("none of its bindings leads to what else there is of a cascade")
	}
	if a.lookahead == a.highest+1 {
		a.lookahead = a.levels
	}
	a.strictKeys = len(a.hops) == 0 || 2*strict >= own
	return strict > 0 && a.strictKeys, nil
}

// isOwn tells whether a hop of the highest level leads to what the cascade has there.
func (a *attempt) isOwn(h hop) bool {
	to := a.highest - h.zeros
	if h.waits() {
		return to >= 0 && a.have(h.digit) && a.name(place{to, h.digit}) == h.to
	}
	return to >= -1 && a.exchange(to) == h.to
}

// proveMissing makes sure of an entry that shows nothing. An exchange below has keys that skip its digit, and its name
// can come from no other entry. It is a level of no other cascade, and two queues agree.
func (a *attempt) proveMissing(ctx context.Context) error {
	switch {
	case a.highest < 0:
		return errNoHops
	case len(a.agreed.levels) < 2:
		return notThis("no two queues below it agree on what they are")
	}
	name := a.exchange(a.highest)
	formats := formatsOf(name, a.highest)
	for level, name := range a.seen {
		formats = with(formats, level, name)
	}
	if at := slices.IndexFunc(formats, a.like); at >= 0 {
		formats = formats[at : at+1] // what all names have in common
	}
	if entries := names(formats, a.levels-1); len(entries) > 1 || entries[0] != a.exchange(a.levels-1) {
		return notThisf("exchange %q could be that below %s", name, orList(entries))
	}
	owner, err := a.entryAbove(ctx, name, a.levels-1-a.highest)
	switch {
	case err != nil:
		return err
	case owner != "":
		return notThisf("exchange %q is a level of another cascade", name)
	case a.entry.Name == "":
		a.entry, _, err = a.look.Exchange(ctx, name) // which has the same alternate exchange
	}
	return err
}

// continues tells whether the delivery exchange is called like the level below the lowest. Then these
// are the upper levels of a longer cascade.
func (a *attempt) continues() bool {
	for level := 1; level < MaxLevels; level++ {
		if len(with(formatsOf(a.exchange(0), level), level-1, a.delivery)) > 0 {
			return true
		}
	}
	return false
}

// config is the configuration as far as it was read, but for the parts that only the whole cascade shows.
func (a *attempt) config(ctx context.Context) (Config, error) {
	name, parks, err := a.parking(ctx)
	if err != nil {
		return Config{}, err
	}
	creates, err := a.ownsDelivery(ctx, shared{name: name, parks: parks, delivery: a.delivery})
	c := Config{
		Vhost: a.vhost, Name: name, Base: a.base, Levels: a.levels, Resolution: a.agreed.resolution,
		ExchangeName: a.exchanges[0], QueueName: a.queue,
		DeliveryExchange: a.delivery, CreateDeliveryExchange: creates,
		QueueType: a.agreed.queueType, QuorumOptions: a.agreed.QuorumOptions,
		Lookahead: a.lookahead, StrictKeys: a.strictKeys, ParkUnroutable: parks,
	}
	if name == "" {
		c.Name = c.derivedName()
	}
	return c, err
}

// internalLevels tells whether an exchange below the entry is internal. Where there is none at all, the default
// holds.
func (a *attempt) internalLevels(ctx context.Context) (bool, error) {
	none := true
	for level := a.levels - 2; level >= 0; level-- {
		e, exists, err := a.look.Exchange(ctx, a.exchange(level))
		if err != nil || e.Internal {
			return err == nil, err
		}
		none = none && !exists
	}
	return none, nil
}
