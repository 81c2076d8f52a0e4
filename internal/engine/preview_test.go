package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology/topologytest"
)

// one is an entry before a queue that delays. Messages leave by the exchange d, which is its own.
func one(entry, queue string) topology.Topology {
	t := objects([]string{entry, "d"}, queue)
	t.Entry, t.Delivery, t.DeliveryType = entry, "d", "topic"
	t.Queues[queue] = topology.Queue{Name: queue, Durable: true, Arguments: topology.Arguments{
		"x-queue-type": "classic", "x-message-ttl": int64(1000), "x-dead-letter-exchange": "d"}}
	t.Bindings.Add(topologytest.ToQueue(entry, "1s.*.#", queue))
	return t.WithOwner("its owner")
}

// objects are exchanges, and queues that do not delay.
func objects(exchanges []string, queues ...string) topology.Topology {
	t := topology.New()
	for _, name := range exchanges {
		t.Exchanges[name] = topology.Exchange{Name: name, Type: "topic", Durable: true}
	}
	for _, name := range queues {
		t.Queues[name] = topology.Queue{Name: name, Durable: true}
	}
	return t
}

// with is the topology after a change.
func with(t topology.Topology, change func(*topology.Topology)) topology.Topology {
	t = t.Clone()
	change(&t)
	return t
}

// bound is the topology with a binding more.
func bound(t topology.Topology, b topology.Binding) topology.Topology {
	return with(t, func(t *topology.Topology) { t.Bindings.Add(b) })
}

// typed is the topology with an exchange of another type.
func typed(t topology.Topology, exchange, kind string) topology.Topology {
	return with(t, func(t *topology.Topology) {
		t.Exchanges[exchange] = topology.Exchange{Name: exchange, Type: kind, Durable: true}
	})
}

// delivering is the topology with a delivery exchange of others.
func delivering(t topology.Topology, exchange string) topology.Topology {
	return with(t, func(t *topology.Topology) {
		delete(t.Exchanges, t.Delivery)
		t.Delivery = exchange
	})
}

// setting is the topology with a policy for its entry.
func setting(t topology.Topology, name string, priority float64, definition topology.Arguments) topology.Topology {
	return with(t, func(t *topology.Topology) {
		t.Policies[name] = topology.Policy{Name: name, Pattern: "^e$", ApplyTo: "all", Priority: priority,
			Definition: definition}
	})
}

// has lets the broker have all of the topology.
func (w *world) has(t topology.Topology) {
	w.Helper()
	var phases [3]plan.Phase
	add := func(phase int, step plan.Step) { phases[phase].Steps = append(phases[phase].Steps, step) }
	for _, e := range t.Exchanges {
		add(0, plan.DeclareExchange{Exchange: e})
	}
	for _, q := range t.Queues {
		add(0, plan.DeclareQueue{Queue: q})
	}
	for _, b := range slices.Concat(t.Bindings.Sorted(), t.Owners.Sorted()) {
		add(1, plan.Bind{Binding: b})
	}
	for _, p := range t.Policies {
		add(2, plan.SetPolicy{Policy: p})
	}
	if _, err := engine.Run(w.Context(), w.client.Vhost(w.vhost), phases[:]); err != nil {
		w.Fatal(err)
	}
}

// told is what a preview says, in words.
func told(problems []engine.Problem) string {
	codes := map[engine.Code]string{engine.Refused: "refused", engine.Displaces: "displaces",
		engine.Other: "takes along", engine.TakesOver: "takes over", engine.Unusable: "unusable"}
	var all []string
	for _, p := range problems {
		text := strings.ReplaceAll(p.Cause.Error(), "\n", "; ")
		if failure, is := errors.AsType[*rabbit.Error](p.Cause); is {
			text = string(failure.Kind)
		}
		if reached, is := errors.AsType[*engine.ReachedError](p.Cause); is {
			text += fmt.Sprintf(" %q", reached.Objects)
		}
		if displaced, is := errors.AsType[*engine.DisplacedError](p.Cause); is {
			for _, rival := range displaced.Rivals {
				text += fmt.Sprint(" ", rival.Policy.Name, rival.Exchanges)
			}
		}
		all = append(all, codes[p.Code]+": "+text)
	}
	return strings.Join(all, " | ")
}

// What a plan says of a change, by what the broker has.
func TestPreview(t *testing.T) {
	w := newWorld(t)
	none, own, other := topology.New(), one("e", "q"), one("f", "r")
	used := bound(own, topologytest.ToQueue("d", "#.a", "orders")).Union(objects(nil, "orders"))
	inbound := bound(own, topologytest.ToQueue("amq.topic", "k", "q"))
	shared := with(own, func(t *topology.Topology) { t.Shared = true })
	pattern := bound(shared, topologytest.ToQueue("e", "#.x", "orders")).Union(objects(nil, "orders"))
	pattern.Shared = true
	rebuilt := with(own, func(t *topology.Topology) { t.Queues["q"] = topology.Queue{Name: "q", Durable: true} })
	more := own.Union(objects(nil, "r"))
	parks := topology.Arguments{"alternate-exchange": "p"}
	parking := setting(own, "own", 1, parks)
	parking.Exchanges["p"] = topology.Exchange{Name: "p", Type: "fanout", Durable: true}

	adopt, replaces := engine.Options{Adopt: true}, engine.Options{Replaces: true, Own: own}
	planned, replacesPlanned := engine.Options{DeliveryPlanned: true}, replaces
	replacesPlanned.DeliveryPlanned = true
	const (
		exist      = `refused: these objects exist: exchange "e", queue "q"`
		missing    = `refused: delivery exchange "x" does not exist`
		alongFor   = "takes along: %d bindings of other applications would go, and %d for a time"
		displaces  = `displaces: policy "own" would take exchanges from other policies `
		takesOther = "refused: 1 bindings of other applications would take other messages"
	)
	along := func(lost, again int) string { return fmt.Sprintf(alongFor, lost, again) }

	for _, situation := range []struct {
		there   topology.Topology
		changes map[string]preview
	}{
		{none, map[string]preview{
			"create":                    {none, own, engine.Options{}, "", ""},
			"delivery missing":          {none, delivering(own, "x"), engine.Options{}, "", missing},
			"delivery planned":          {none, delivering(own, "x"), planned, "", ""},
			"adoption of nothing":       {none, own, adopt, "", ""},
			"replacement, no delivery":  {own, delivering(other, "x"), replaces, "", missing},
			"replacement, planned":      {own, delivering(other, "x"), replacesPlanned, "", ""},
			"with a policy":             {none, parking, engine.Options{}, "", ""},
			"nobody tells of the vhost": {none, own, engine.Options{}, "/exchanges/", "unusable: request refused"},
		}},
		{own, map[string]preview{
			"create":           {none, own, engine.Options{}, "", exist},
			"by another owner": {none, own.WithOwner("b"), engine.Options{}, "", exist},
			"adoption":         {none, own, adopt, "", ""},
			"adoption by another owner": {none, own.WithOwner("b"), adopt, "",
				"takes over: another resource owns it"},
			"replacement":                 {own, other, replaces, "", ""},
			"replacement by itself":       {own, own, replaces, "", ""},
			"replacement, others' own it": {other, own, engine.Options{Replaces: true, Own: other}, "", exist},
			"replacement, not read":       {other, own, engine.Options{Replaces: true}, "/exchanges/", ""},
			"delivery differs, unused":    {own, typed(other, "d", "fanout"), replaces, "", ""},
			"update":                      {own, more, engine.Options{}, "", ""},
			"destroy":                     {own, none, engine.Options{}, "", ""},
		}},
		{objects([]string{"d"}), map[string]preview{"adoption of the delivery exchange": {none, own, adopt, "", ""}}},
		{own.Minus(objects([]string{"e"})), map[string]preview{
			"adoption without an entry": {none, own, adopt, "", "takes over: its entry is missing"}}},
		// A create that finds no exchange looks for no queue.
		{own.Minus(objects([]string{"d", "e"})), map[string]preview{
			"adoption of a queue alone": {none, own, adopt, "", ""}}},
		{used, map[string]preview{
			"delivery differs, used": {own, typed(other, "d", "fanout"), replaces, "",
				`refused: exchange "d" stays, because other exchanges or queues use it: queue "orders", bound with ` +
					`key "#.a"`},
			"delivery differs, not read": {own, typed(other, "d", "fanout"), replaces, "/exchanges/V/d/", ""},
			"delivery is as wanted":      {own, other, replaces, "", ""},
			"delivery becomes others'":   {own, delivering(other, "d"), replaces, "", ""},
			"delivery was others'": {delivering(own, "d"), other,
				engine.Options{Replaces: true, Own: delivering(own, "d")}, "", ""},
		}},
		{inbound, map[string]preview{
			"destroy":           {own, none, engine.Options{}, "", along(1, 0)},
			"destroy, not read": {own, none, engine.Options{}, "/queues/V/q/", ""},
			"rebuild":           {own, rebuilt, engine.Options{Rebuild: true}, "", along(0, 1)},
			"update":            {own.Union(objects(nil, "r")), own, engine.Options{}, "", ""},
			"update loses it":   {own, own.Minus(objects(nil, "q")), engine.Options{}, "", along(1, 0)},
		}},
		{pattern, map[string]preview{
			"destroy":            {shared, none, engine.Options{}, "", along(1, 0)},
			"destroy, not read":  {shared, none, engine.Options{}, "/queues/V/q/", ""},
			"binding of its own": {own, none, engine.Options{}, "", ""},
			"rebuild, another type": {shared, typed(shared, "e", "direct"), engine.Options{Rebuild: true}, "",
				takesOther + " | " + along(0, 1)},
		}},
		{setting(own, "weak", 0, topology.Arguments{"alternate-exchange": "x"}), map[string]preview{
			"displaces": {own, parking, engine.Options{}, "", displaces + "weak[e]"},
			"the state has it": {own, parking,
				engine.Options{Own: setting(own, "weak", 0, parks)}, "", ""},
			"no policy":          {own, own, engine.Options{}, "", ""},
			"policies, not read": {own, parking, engine.Options{}, "/policies/", ""},
		}},
		{setting(own, "queues", 0, topology.Arguments{"max-length": int64(5)}), map[string]preview{
			"displaces nothing that is for exchanges": {own, parking, engine.Options{}, "", ""}}},
	} {
		w := newSituation(w)
		w.has(situation.there)
		for name, c := range situation.changes {
			if got := w.preview(c); got != c.want {
				t.Errorf("%s: it says %q, not %q", name, got, c.want)
			}
		}
	}
}

// What keeps an update or a rebuild from being made is in its plan as well, in the same words.
func TestPreviewSaysWhatApplyRefuses(t *testing.T) {
	w := newWorld(t)
	own := one("e", "q")
	limited := func(t topology.Topology, queue string) topology.Topology {
		return with(t, func(t *topology.Topology) {
			t.Queues[queue] = topology.Queue{Name: queue, Durable: true,
				Arguments: topology.Arguments{"x-max-length": int64(5)}}
		})
	}
	more := own.Union(objects(nil, "r"))
	lost := with(own, func(t *topology.Topology) { t.Queues, t.Bindings = nil, topology.Bindings{} })
	undelivered := own.Minus(objects([]string{"d"}))
	rebuilt := limited(own, "q")
	toX, moreToX, rebuiltToX, toD := delivering(own, "x"), delivering(more, "x"), delivering(rebuilt, "x"),
		delivering(own, "d")
	moreRebuilt := rebuilt.Union(objects(nil, "r"))
	direct := with(own, func(t *topology.Topology) {
		t.Delivery, t.DeliveryType = "x", "direct"
		t.Exchanges["x"] = topology.Exchange{Name: "x", Type: "direct", Durable: true}
		delete(t.Exchanges, "d")
	})
	other := one("f", "s").WithOwner("other")
	other.Exchanges["g"] = topology.Exchange{Name: "g", Type: "topic", Durable: true}
	delays := own.Union(topology.Topology{Queues: map[string]topology.Queue{"r": one("e", "r").Queues["r"]}})
	reached := bound(other.Union(delays), topologytest.ToQueue("f", "1.#", "r"))
	reached.Owners = other.Owners
	parks := topology.Arguments{"alternate-exchange": "p"}
	parking := with(setting(own, "own", 1, parks), func(t *topology.Topology) {
		t.Exchanges["p"] = topology.Exchange{Name: "p", Type: "fanout", Durable: true}
	})
	parkingRebuilt := limited(parking, "q")
	rivals := setting(own, "strong", 2, topology.Arguments{"alternate-exchange": "x"})
	misread := bound(more, topologytest.ToQueue("e", "#.x", "orders")).Union(objects(nil, "orders"))
	misread.Shared = true
	retyped := typed(moreRebuilt, "e", "direct")
	retyped.Shared = true
	shared := with(own, func(t *topology.Topology) { t.Shared = true })

	update, rebuild := engine.Options{}, engine.Options{Rebuild: true}
	adopt, adoptRebuild := engine.Options{Adopt: true}, engine.Options{Adopt: true, Rebuild: true}
	planned, plannedRebuild := engine.Options{DeliveryPlanned: true},
		engine.Options{DeliveryPlanned: true, Rebuild: true}
	const (
		exists    = `these objects exist: queue "r"`
		differs   = exists + ": x-max-length is 5, not absent"
		missing   = `delivery exchange "x" does not exist`
		wrongType = `delivery exchange "x" is of type "direct"`
		takeover  = `the delivery exchange differs: exchange "d": type is direct, not topic`
		outranked = `policy "own" would not apply because of other policies`
		others    = "another resource owns it"
		both      = exists + "\n" + outranked
		leads     = `exchange "f" leads into it, too`
	)
	for name, c := range map[string]struct {
		there, before, after topology.Topology
		options              engine.Options
		refuses, want        string
	}{
		"update":                       {own, own, more, update, "", ""},
		"queue differs":                {limited(more, "r"), own, more, update, "", differs},
		"queue differs, adopt":         {limited(more, "r"), own, more, adopt, "", differs},
		"queue exists":                 {more, own, more, update, "", exists},
		"queue exists, adopt":          {more, own, more, adopt, "", ""},
		"queue is reached":             {reached, own, delays, adopt, "", leads},
		"queue was its own":            {limited(more, "r"), more, more, update, "", ""},
		"a policy is in the way":       {rivals, own, parking, update, "", outranked},
		"two things are in the way":    {rivals.Union(more), own, parking.Union(more), update, "", both},
		"policy was its own":           {rivals, rivals, parking, update, "", ""},
		"delivery missing":             {own, toX, moreToX, update, "", missing},
		"delivery of the wrong type":   {direct, toX, moreToX, update, "", wrongType},
		"delivery planned":             {direct, toX, moreToX, planned, "", ""},
		"delivery taken over":          {own, toD, own, update, "", ""},
		"delivery to be made":          {undelivered, toD, own, update, "", ""},
		"delivery taken over, differs": {typed(own, "d", "direct"), toD, own, update, "", takeover},
		"delivery taken over, planned": {typed(own, "d", "direct"), toD, own, planned, "", ""},
		"owner changed":                {own.WithOwner("other"), own, more, update, "", others},
		"owner changed, adopt":         {own.WithOwner("other"), own, more, adopt, "", ""},
		"no owner":                     {own.WithOwner(""), own, more, update, "", ""},
		"queue lost":                   {lost, own, more, update, "", ""},
		"queue damaged":                {limited(own, "q"), own, more, update, "", ""},
		"entry lost":                   {own.Minus(objects([]string{"e"})), own, more, update, "", ""},
		"delivery damaged":             {typed(own, "d", "direct"), own, more, update, "", ""},
		"all lost":                     {nothing.Clone(), own, more, update, "", ""},
		"not read":                     {more, own, more, update, "/exchanges/V", ""},
		"queue not read":               {more, own, more, update, "/queues/V/r", ""},
		"what leads there not read":    {reached, own, delays, adopt, "/queues/V/r/bindings", ""},

		"rebuild":                         {own, own, rebuilt, rebuild, "", ""},
		"rebuild, queue differs":          {limited(more, "r"), own, moreRebuilt, rebuild, "", differs},
		"rebuild, queue exists":           {more, own, moreRebuilt, rebuild, "", exists},
		"rebuild, queue exists, adopt":    {more, own, moreRebuilt, adoptRebuild, "", ""},
		"rebuild, policy in the way":      {rivals, own, parkingRebuilt, rebuild, "", outranked},
		"rebuild, delivery missing":       {own, own, rebuiltToX, rebuild, "", missing},
		"rebuild, delivery of wrong type": {own.Union(direct), own, rebuiltToX, rebuild, "", wrongType},
		"rebuild, delivery planned":       {own, own, rebuiltToX, plannedRebuild, "", ""},
		"rebuild, delivery differs": {own.Union(typed(direct, "x", "topic")), own, direct, rebuild, "",
			`these objects exist: exchange "x": type is topic, not direct`},
		"rebuild, delivery differs, planned": {own.Union(typed(direct, "x", "topic")), own, direct, plannedRebuild,
			"", ""},
		"rebuild, delivery as wanted": {own.Union(direct), own, direct, rebuild, "", ""},
		"rebuild, owner changed":      {own.WithOwner("other"), own, rebuilt, rebuild, "", others},
		"rebuild, queue lost":         {lost, own, rebuilt, rebuild, "", ""},
		"rebuild, queue and meaning":  {misread, shared, retyped, rebuild, "", exists},
		"rebuild, not read":           {more, own, moreRebuilt, rebuild, "/exchanges/V", ""},
	} {
		w := newSituation(w)
		w.has(c.there)
		problems := w.problems(preview{c.before, c.after, c.options, c.refuses, ""})
		said := ""
		if err := refusal(problems); err != nil {
			said = err.Error()
		}
		if said != c.want {
			t.Errorf("%s: the plan says %q, not %q", name, said, c.want)
		}
		if c.refuses != "" || c.options.DeliveryPlanned {
			continue
		}
		if _, err := w.apply(c.before, c.after, c.options); err == nil && c.want != "" ||
			err != nil && err.Error() != c.want {
			t.Errorf("%s: the apply says %v, not %q", name, err, c.want)
		}
	}
}

// preview is a change, and what the plan is to say. A gateway refuses requests with such a path: V is for the vhost.
type preview struct {
	before, after topology.Topology
	options       engine.Options
	refuses, want string
}

func (w *world) preview(p preview) string { return told(w.problems(p)) }

func (w *world) problems(p preview) []engine.Problem {
	client := w.client
	if p.refuses != "" {
		client = connect(w.T, w.broker, w.refusing(func(r *http.Request) bool {
			return strings.Contains(r.URL.Path, strings.ReplaceAll(p.refuses, "V", w.vhost))
		}))
	}
	return engine.New(client).Preview(w.Context(), w.change(p.before, p.after, p.options))
}

// newSituation is another vhost for the same test.
func newSituation(w *world) *world {
	return &world{w.T, w.broker, w.client, brokertest.Vhost(w.T, w.broker)}
}

// What messages reach from an entry of another owner is not adopted, because its destroy would delete it.
func TestPreviewOfWhatOthersReach(t *testing.T) {
	w := newWorld(t)
	own := one("e", "q").Union(objects([]string{"m"}, "p"))
	toQueue, toLevel := topologytest.ToQueue("f", "other", "q"), topologytest.ToExchange("f", "1.#", "m")
	through := []topology.Binding{topologytest.ToExchange("f", "1.#", "g"), topologytest.ToExchange("g", "1.#", "f"),
		topologytest.ToExchange("g", "1.#", "m")}
	ownerless := own.Union(objects([]string{"f", "g"}))
	there := ownerless.Clone()
	maps.Copy(there.Owners, one("f", "q").WithOwner("other").Owners)
	reached := func(objects ...string) string {
		return fmt.Sprintf(`refused: exchange "f" leads into it, too %q`, objects)
	}
	const level, queue = `exchange "m"`, `queue "q"`
	for name, test := range map[string]struct {
		there    topology.Topology
		bindings []topology.Binding
		refuses  string
		create   string
		replace  string
	}{
		"none":            {there, nil, "", "", ""},
		"its level":       {there, []topology.Binding{toLevel}, "", reached(level), reached(level)},
		"its delay queue": {there, []topology.Binding{toQueue}, "", reached(queue), reached(queue)},
		"both": {there, []topology.Binding{toQueue, toLevel}, "", reached(level, queue),
			reached(level, queue)},
		"by another key":           {there, []topology.Binding{topologytest.ToExchange("f", "other", "m")}, "", "", ""},
		"its parking queue":        {there, []topology.Binding{topologytest.ToQueue("f", "other", "p")}, "", "", ""},
		"its entry":                {there, []topology.Binding{topologytest.ToExchange("f", "1.#", "e")}, "", "", ""},
		"no owner":                 {ownerless, []topology.Binding{toQueue, toLevel}, "", "", ""},
		"through another exchange": {there, through, "", reached(level), reached(level)},
		"in circles, no owner":     {ownerless, through, "", "", ""},
		"bindings, not read": {there, []topology.Binding{toLevel}, "/exchanges/V/m/bindings/destination",
			"unusable: request refused", ""},
		"owners, not read": {there, []topology.Binding{toLevel}, "/exchanges/V/f/bindings/source",
			"unusable: request refused", ""},
	} {
		w := newSituation(w)
		w.has(test.there.Union(topology.Topology{Bindings: topology.NewBindings(test.bindings...)}))
		for replaces, want := range map[bool]string{false: test.create, true: test.replace} {
			c := preview{nothing, own, engine.Options{Adopt: true, Replaces: replaces}, test.refuses, want}
			if got := w.preview(c); got != c.want {
				t.Errorf("%s, replaces %t: it says %q, not %q", name, replaces, got, c.want)
			}
			c.options.Adopt, c.refuses = false, ""
			if got := w.preview(c); !strings.HasPrefix(got, "refused: these objects exist: ") ||
				strings.Contains(got, "leads into") {
				t.Errorf("%s, replaces %t: without adopt it says %q", name, replaces, got)
			}
		}
	}
}

// What all previews of a run meet is said once, and a broker that does not answer is no problem.
func TestPreviewWithoutAnswer(t *testing.T) {
	w := newWorld(t)
	own := setting(one("e", "q"), "own", 1, topology.Arguments{"alternate-exchange": "d"})
	login := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(rw, "<html>Log in</html>")
	}))
	t.Cleanup(login.Close)
	refused := *w.broker
	refused.Password = "wrong"
	for name, test := range map[string]struct {
		client                *rabbit.Client
		vhost                 string
		says, again, replaces string
	}{
		"nobody":  {connect(t, w.broker, "http://127.0.0.1:1"), "/", "", "", ""},
		"a login": {connect(t, &refused, w.broker.Endpoint), "/", "unusable: authentication failed", "", ""},
		"a page":  {connect(t, w.broker, login.URL), "/", "unusable: not a RabbitMQ management API", "", ""},
		"no vhost": {w.client, w.vhost + "-to-come", "unusable: vhost not found", "unusable: vhost not found",
			"refused: vhost not found"},
	} {
		e, change := engine.New(test.client), engine.Change{Kind: "cascade", Vhost: test.vhost, After: own}
		var says []string
		preview := func() { says = append(says, told(e.Preview(rabbit.WithoutRetries(t.Context()), change))) }
		preview()
		preview()
		change.Before, change.Options.Replaces = one("f", "r"), true
		preview()
		change.Options.Replaces = false
		preview()
		change.After = nothing
		preview()
		if want := []string{test.says, test.again, test.replaces, "", ""}; !slices.Equal(says, want) {
			t.Errorf("%s: it says %q, not %q", name, says, want)
		}
	}
	w.has(own)
	e, change := engine.New(w.client), w.change(nothing, own, engine.Options{})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if got := told(e.Preview(over, change)) + told(e.Preview(t.Context(), change)); got != "" {
		t.Errorf("after silence, it asks again, and says %q", got)
	}
}

// Where a gateway keeps the policies back, a plan says of each change to a policy that the apply will be refused.
func TestPreviewWithoutPolicies(t *testing.T) {
	w := newWorld(t)
	server, err := url.Parse(w.broker.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	behind := httputil.NewSingleHostReverseProxy(server)
	gateway := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "policies/") {
			rw.WriteHeader(http.StatusForbidden)
			return
		}
		behind.ServeHTTP(rw, r)
	}))
	t.Cleanup(gateway.Close)
	e := engine.New(connect(t, w.broker, gateway.URL))
	before := setting(one("e", "q"), "own", 1, topology.Arguments{"alternate-exchange": "d"})
	after := setting(one("e", "q"), "own", 2, topology.Arguments{"alternate-exchange": "d"})
	w.has(before)
	for name, c := range map[string]engine.Change{
		"update":      w.change(before, after, engine.Options{}),
		"rebuild":     w.change(before, after, engine.Options{Rebuild: true}),
		"replacement": w.change(nothing, after, engine.Options{Replaces: true, Own: before}),
	} {
		if got := told(e.Preview(t.Context(), c)); !strings.HasPrefix(got, "refused: permission denied") {
			t.Errorf("%s: it says %q", name, got)
		}
		if c.Options.Replaces {
			continue
		}
		if _, err := e.Apply(t.Context(), c); !rabbit.IsKind(err, rabbit.Forbidden) {
			t.Errorf("%s: the apply ends with %v", name, err)
		}
	}
	without := w.change(one("e", "q"), one("e", "q"), engine.Options{})
	if got := told(e.Preview(t.Context(), without)); got != "" {
		t.Errorf("without a policy, it says %q", got)
	}
}

// RabbitMQ tells an administrator of permissions, and nobody else.
func TestPreviewOfPermissions(t *testing.T) {
	w := newWorld(t)
	api := func(method, body string, path ...string) {
		t.Helper()
		address, err := url.JoinPath(w.broker.Endpoint, append([]string{"api"}, path...)...)
		if err != nil {
			t.Fatal(err)
		}
		request, err := http.NewRequestWithContext(context.Background(), method, address, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.SetBasicAuth(w.broker.Username, w.broker.Password)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.StatusCode >= http.StatusBadRequest {
			t.Fatal(method, address, response.Status)
		}
	}
	const all, some = `{"configure":".*","write":".*","read":".*"}`, `{"configure":"^(q|d)$","write":".*","read":".*"}`
	for name, test := range map[string]struct {
		tag         string
		permissions string
		want        string
	}{
		"administrator": {"administrator", all, ""},
		"administrator, restricted": {"administrator", some,
			`refused: user "U" lacks permissions: configure on exchange "e"`},
		"administrator without any":      {"administrator", "", "unusable: permission denied"},
		"with the tag management":        {"management", all, ""},
		"with that tag, and restricted":  {"management", some, ""},
		"with that tag, and without any": {"management", "", "unusable: permission denied"},
	} {
		b := *w.broker
		b.Username, b.Password = strings.ReplaceAll(name, " ", "-")+"-"+w.vhost, "not-the-password"
		api(http.MethodPut, fmt.Sprintf(`{"password":%q,"tags":%q}`, b.Password, test.tag), "users", b.Username)
		t.Cleanup(func() { api(http.MethodDelete, "", "users", b.Username) })
		if test.permissions != "" {
			api(http.MethodPut, test.permissions, "permissions", w.vhost, b.Username)
		}
		e := engine.New(connect(t, &b, b.Endpoint))
		got := told(e.Preview(t.Context(), w.change(nothing, one("e", "q"), engine.Options{})))
		if got = strings.ReplaceAll(got, b.Username, "U"); got != test.want {
			t.Errorf("%s: it says %q, not %q", name, got, test.want)
		}
	}
}
