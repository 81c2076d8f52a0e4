package broker

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// mostReceivers is how many queues are looked at beside those that are to be empty. With more of them it takes less time to wait
// until the totals are up to date.
const mostReceivers = 100

// keepExpired are the queues that may keep a message after its time, with at-least-once dead-lettering: all but those of which it is
// certain that every message gets into a queue at once. For that, the dead-letter exchange has to have an alternate exchange that is a
// fanout with a queue bound to it. And none of the queues that messages get to from there may refuse one, because it is full: what is
// refused stays where it was until the next attempt, three minutes later (dead_letter_worker_publisher_confirm_timeout). Known are
// the bindings of exchanges that need not be asked for.
func (r *Runner) keepExpired(ctx context.Context, v surroundings, queues []topology.Queue, known map[string][]topology.Binding) (map[string]bool, error) {
	if !slices.ContainsFunc(queues, isQuorum) {
		return nil, nil
	}
	keep := map[string]bool{}
	routing := map[string]bool{} // the dead-letter exchanges that may route every message
	for _, q := range queues {
		if q.AtLeastOnce() || q.Type() == "quorum" && v.policies.set(q.Name, "dead-letter-strategy", "at-least-once") {
			keep[q.Name] = true
			if x, exists := v.exchanges[q.DeadLetterExchange()]; exists && v.exchanges[x.AlternateExchange()].Type == "fanout" {
				routing[x.Name] = true
			}
		}
	}
	if len(routing) == 0 {
		return keep, nil
	}
	reached, err := r.reached(ctx, v, slices.Sorted(maps.Keys(routing)), known)
	if err != nil {
		return nil, err
	}
	if refuses, err := r.anyRefuses(ctx, v.policies, reached, queues); err != nil || refuses {
		return keep, err
	}
	for _, q := range queues {
		x := v.exchanges[q.DeadLetterExchange()]
		if routing[x.Name] && slices.ContainsFunc(reached[x.AlternateExchange()], leadsToQueue) {
			delete(keep, q.Name)
		}
	}
	return keep, nil
}

func isQuorum(q topology.Queue) bool { return q.Type() == "quorum" }

func leadsToQueue(b topology.Binding) bool { return b.DestinationType == topology.ToQueue }

// surroundings is what a vhost has that decides about messages, beside queues and bindings.
type surroundings struct {
	exchanges map[string]topology.Exchange
	policies  policies
}

// surroundings leaves out the exchanges where no queue waits for another one to confirm what it dead-letters.
func (r *Runner) surroundings(ctx context.Context, queues []topology.Queue) (surroundings, error) {
	v := surroundings{exchanges: map[string]topology.Exchange{}}
	var users, operators policies
	group, ctx := errgroup.WithContext(ctx)
	if slices.ContainsFunc(queues, isQuorum) {
		group.Go(func() error {
			list, err := r.exchanges(ctx, r.vhost)
			for _, e := range list {
				v.exchanges[e.Name] = e.exchange()
			}
			return err
		})
	}
	for kind, list := range map[string]*policies{"policies": &users, "operator-policies": &operators} {
		group.Go(func() error {
			err := r.get(ctx, list, "", kind, r.vhost)
			if err = r.failedUnlessMissing(fmt.Sprintf("list the %s of vhost %q", kind, r.vhost), err); IsKind(err, Forbidden) {
				*list = policies{unreadable}
				return nil
			}
			return err
		})
	}
	err := group.Wait()
	v.policies = slices.Concat(users, operators)
	return v, err
}

// policies are those of users and of operators. Which of those that match has the highest priority makes no difference here.
type policies []policyInfo

type policyInfo struct {
	Pattern    string                `json:"pattern"`
	Definition loose[map[string]any] `json:"definition"`
}

// unreadable stands for policies that the user may not read: at worst, they limit every queue, and no message stays in it.
var unreadable = policyInfo{Definition: loose[map[string]any]{map[string]any{
	"max-length": 0, "overflow": "reject-publish", "dead-letter-strategy": "at-least-once", "message-ttl": float64(0),
}}}

// values are what policies may set a key of an object to.
func (p policies) values(object, key string) (values []any) {
	for _, policy := range p {
		value, sets := policy.Definition.value[key]
		if !sets {
			continue
		}
		// RabbitMQ takes regular expressions that Go does not know.
		if matches, err := regexp.MatchString(policy.Pattern, object); matches || err != nil {
			values = append(values, value)
		}
	}
	return values
}

// set tells whether a policy may set a key to a text that begins like that.
func (p policies) set(object, key, begin string) bool {
	return slices.ContainsFunc(p.values(object, key), func(value any) bool {
		text, _ := value.(string)
		return strings.HasPrefix(text, begin)
	})
}

// shortestStay is the shortest time that a message spends in one of the queues: by their arguments and by the policies, of which RabbitMQ takes
// the minimum. Of messages that have an expiration themselves it is not known, and where policies cannot be read it is none.
func (p policies) shortestStay(queues []topology.Queue) time.Duration {
	shortest := time.Duration(math.MaxInt64)
	for _, q := range queues {
		if millis, ok := q.Arguments["x-message-ttl"].(int64); ok {
			shortest = min(shortest, time.Duration(millis)*time.Millisecond)
		}
		for _, value := range p.values(q.Name, "message-ttl") {
			millis, _ := value.(float64)
			shortest = min(shortest, time.Duration(millis)*time.Millisecond)
		}
	}
	return shortest
}

// mayRefuse tells whether a queue may refuse messages because it is full.
func (p policies) mayRefuse(queue string, arguments topology.Arguments) bool {
	limited := len(p.values(queue, "max-length")) > 0 || len(p.values(queue, "max-length-bytes")) > 0
	for _, key := range []string{"x-max-length", "x-max-length-bytes"} {
		_, set := arguments[key]
		limited = limited || set
	}
	overflow, _ := arguments["x-overflow"].(string)
	const refuse = "reject-publish" // and reject-publish-dlx
	return limited && (strings.HasPrefix(overflow, refuse) || p.set(queue, "overflow", refuse))
}

// reached are the bindings of all exchanges that messages get to from some, by their source. Known are some of them.
func (r *Runner) reached(ctx context.Context, v surroundings, from []string, known map[string][]topology.Binding) (map[string][]topology.Binding, error) {
	reached := map[string][]topology.Binding{}
	for next := from; len(next) > 0; {
		for i := 0; i < len(next); i++ { // it grows
			x := v.exchanges[next[i]]
			for _, alternate := range append(v.policies.values(x.Name, "alternate-exchange"), x.AlternateExchange()) {
				name, _ := alternate.(string)
				if _, seen := reached[name]; name != "" && !seen && !slices.Contains(next, name) {
					next = append(next, name)
				}
			}
		}
		found, err := each(ctx, next, func(ctx context.Context, exchange string) ([]topology.Binding, error) {
			if bindings, isKnown := known[exchange]; isKnown {
				return bindings, nil
			}
			return r.bindingsFrom(ctx, r.vhost, exchange)
		})
		if err != nil {
			return nil, err
		}
		for i, name := range next {
			reached[name] = found[i]
		}
		ahead := map[string]bool{}
		for _, b := range slices.Concat(found...) {
			if _, seen := reached[b.Destination]; !leadsToQueue(b) && !seen {
				ahead[b.Destination] = true
			}
		}
		next = slices.Sorted(maps.Keys(ahead))
	}
	return reached, nil
}

// anyRefuses tells whether it is not certain that each queue that the bindings lead to takes every message. Known are queues whose
// arguments need not be asked for.
func (r *Runner) anyRefuses(ctx context.Context, policies policies, reached map[string][]topology.Binding, known []topology.Queue) (bool, error) {
	receivers := map[string]bool{}
	for _, bindings := range reached {
		for _, b := range bindings {
			if leadsToQueue(b) {
				receivers[b.Destination] = true
			}
		}
	}
	for _, q := range known {
		if receivers[q.Name] && policies.mayRefuse(q.Name, q.Arguments) {
			return true, nil
		}
		delete(receivers, q.Name)
	}
	if len(receivers) > mostReceivers {
		return true, nil
	}
	answers, err := each(ctx, slices.Sorted(maps.Keys(receivers)), func(ctx context.Context, name string) (bool, error) {
		var q receiverInfo
		_, err := r.request(r.newCall(ctx), http.MethodGet, apiPath("queues", r.vhost, name)+receiverQuery, nil, &q)
		if isNotFound(err) {
			return true, nil // deleted just now: what it has not confirmed comes again
		}
		if err == nil {
			err = about(name, q.Name)
		}
		if err != nil {
			return false, r.failed(fmt.Sprintf("read queue %q in vhost %q", name, r.vhost), err)
		}
		return policies.mayRefuse(name, q.Arguments.value) || !q.isServed(), nil
	})
	return slices.Contains(answers, true), err
}

// receiverInfo is what says whether a queue takes messages.
type receiverInfo struct {
	Name      string                `json:"name"`
	Type      loose[string]         `json:"type"`
	Arguments loose[map[string]any] `json:"arguments"`
	State     loose[string]         `json:"state"`
	Members   loose[[]string]       `json:"members"`
	Online    loose[[]string]       `json:"online"`
}

// receiverQuery leaves out the statistics, which are old and of a new queue missing.
const receiverQuery = "?disable_stats=true&columns=name,type,arguments,state,members,online"

// isServed tells whether somebody is there to take messages: "live" is what 3.10 calls "running".
func (q receiverInfo) isServed() bool {
	return slices.Contains([]string{"classic", "quorum", "stream"}, q.Type.value) &&
		slices.Contains([]string{"running", "live", "idle", "flow"}, q.State.value) &&
		(len(q.Members.value) == 0 || 2*len(q.Online.value) > len(q.Members.value))
}
