// Package control measures what Terraform takes for a cascade: time, requests, connections and memory of plan,
// apply, import and destroy. A broker comes in, and samples go out to a recorder. Call New, and methods of the Bench.
//
// Terraform itself takes time that no provider can save. The floor is one exchange of the provider cyrilgdn/rabbitmq if
// that is given, else the smallest possible cascade.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/bench/dataplane"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/bench/sample"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// Options say what Run measures.
type Options struct {
	Levels  []int
	Latency []time.Duration // added to every round trip, with the highest number of levels
	// queues and bindings of others in the vhost, likewise, for Beside; 0 is the base of the comparison
	Foreign []int
	Units   []dataplane.Units // of Units; none leaves it out
	Ten     bool              // whether to measure ten cascades in one configuration
	Import  bool
	Steps   bool // whether to measure the broker's own time for the objects
	// whether to wait until a plan is as small as it gets, and a broker at rest
	Settle bool
	Rounds int    // Beside takes so many each time that the others come
	Other  string // executable file of the provider cyrilgdn/rabbitmq, or empty
}

// Bench measures on one broker.
type Bench struct {
	broker   *brokertest.Broker
	recorder *sample.Recorder
}

// New returns a Bench.
func New(b *brokertest.Broker, recorder *sample.Recorder) *Bench {
	return &Bench{broker: b, recorder: recorder}
}

// subject is a configuration under measurement.
type subject struct {
	name      string
	parameter string
	x         float64
	scenarios string // what sets its scenarios apart
	latency   time.Duration
	foreign   int           // queues of others in its vhost
	rest      time.Duration // before the first round
	// configuration takes the vhost from a variable.
	configuration string
	address       string                    // of what can be imported
	importID      func(vhost string) string // its identifier

	vhost     string
	gateway   *gateway
	relay     *relay
	workspace *workspace
}

// Run measures all but what Beside and Units do.
func (b *Bench) Run(ctx context.Context, o Options) error {
	return b.with(ctx, o, func(t *terraform) error { return b.measure(ctx, t, o, 1, subjects(o)) })
}

// afterCrowds is how long a broker is left alone after tens of thousands of queues have come or gone. These keep it
// busy for some seconds more.
const afterCrowds = 30 * time.Second

// Beside measures the highest number of levels beside queues and bindings of others. They come and go twice, each time
// for all rounds.
func (b *Bench) Beside(ctx context.Context, o Options) error {
	o.Steps = false
	return b.with(ctx, o, func(t *terraform) error {
		for _, first := range []int{1, o.Rounds + 1} {
			for _, i := range rand.Perm(len(o.Foreign)) {
				foreign := o.Foreign[i]
				crowded := largest(o)
				// the floor has none: RabbitMQ 4.3 goes through all bindings on the broker, which would be twice as
				// many
				crowded.foreign = foreign
				if o.Settle {
					crowded.rest = afterCrowds
				}
				subjects := []*subject{floor(o), crowded}
				for _, s := range subjects {
					s.parameter, s.x = "foreign queues", float64(foreign)
				}
				if err := b.measure(ctx, t, o, first, subjects); err != nil {
					return fmt.Errorf("with %d foreign queues: %w", foreign, err)
				}
			}
		}
		return nil
	})
}

// Units measures a cascade of each of the units.
func (b *Bench) Units(ctx context.Context, o Options) error {
	if len(o.Units) == 0 {
		return nil
	}
	o.Steps, o.Import = false, false
	subjects := []*subject{floor(o)}
	for _, u := range o.Units {
		subjects = append(subjects, cascades(u.String(), attributes(u), 1))
	}
	for _, s := range subjects {
		s.scenarios, s.parameter, s.x = dataplane.ByUnits, "cascades", 1
	}
	return b.with(ctx, o, func(t *terraform) error { return b.measure(ctx, t, o, 1, subjects) })
}

func (b *Bench) with(ctx context.Context, o Options, measure func(*terraform) error) (err error) {
	t, err := newTerraform(ctx, o.Other)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	return measure(t)
}

func (o Options) mostLevels() int { return slices.Max(o.Levels) }

// largest is one cascade of the highest number of levels.
func largest(o Options) *subject {
	most := o.mostLevels()
	return ofLevels(fmt.Sprintf("%d levels", most), most, 1)
}

// subjects are all but those beside foreign queues.
func subjects(o Options) []*subject {
	all := []*subject{alone(), floor(o)}
	for _, levels := range o.Levels {
		all = append(all, ofLevels(fmt.Sprintf("%d levels", levels), levels, 1))
	}
	most := o.mostLevels()
	if o.Other != "" {
		all = append(all, plain(fmt.Sprintf("%d levels, single resources", most), most), forced(most))
	}
	for _, latency := range o.Latency {
		slow := []*subject{largest(o)}
		if o.Other != "" {
			slow = append(slow, plain(fmt.Sprintf("%d levels, single resources", most), most), forced(most))
		}
		for _, s := range slow {
			s.latency, s.parameter, s.x = latency, "latency", float64(latency.Milliseconds())
		}
		all = append(all, slow...)
	}
	if o.Ten {
		all = append(all, ofLevels(fmt.Sprintf("%d levels, ten cascades", most), most, 10))
	}
	return all
}

// floor is the least that a provider can be asked for.
func floor(o Options) *subject {
	if o.Other != "" {
		return plain("floor", 0)
	}
	return ofLevels("floor", 1, 1)
}

// measure takes interleaved rounds of all subjects, the first of which has that number. No two subjects exist at a
// time: RabbitMQ 4.3 goes through all bindings on the broker to list those of an exchange.
func (b *Bench) measure(ctx context.Context, t *terraform, o Options, first int, subjects []*subject) (err error) {
	for _, s := range subjects {
		closeSubject, err := b.open(ctx, t, s)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, closeSubject()) }()
	}
	for round := first; round < first+o.Rounds; round++ {
		rand.Shuffle(len(subjects), func(i, j int) { subjects[i], subjects[j] = subjects[j], subjects[i] })
		for _, s := range subjects {
			if err := b.life(ctx, s, o, round); err != nil {
				return err
			}
		}
		if o.Steps {
			if err := b.steps(ctx, o.mostLevels(), round); err != nil {
				return err
			}
		}
	}
	return nil
}

// steps measures, in the same rounds, what of all that is the broker's own time.
func (b *Bench) steps(ctx context.Context, levels, round int) error {
	bench, err := dataplane.New(b.broker, b.recorder)
	if err != nil {
		return err
	}
	return bench.Steps(ctx, levels, round)
}

// life creates, plans, imports and destroys a subject.
func (b *Bench) life(ctx context.Context, s *subject, o Options, round int) error {
	if err := b.step(ctx, s, round, "apply", "apply", "-auto-approve"); err != nil {
		return err
	}
	if o.Settle {
		if err := b.settle(ctx, s.vhost); err != nil {
			return err
		}
	}
	if err := b.step(ctx, s, round, "plan", "plan", "-detailed-exitcode"); err != nil {
		return err
	}
	if o.Import && s.address != "" {
		if _, err := s.workspace.run(ctx, "state", "rm", s.address); err != nil {
			return err
		}
		if err := b.step(ctx, s, round, "import", "import", s.address, s.importID(s.vhost)); err != nil {
			return err
		}
	}
	return b.step(ctx, s, round, "destroy", "destroy", "-auto-approve")
}

// settle waits until the broker tells which policies apply to each new queue. It takes up to nine seconds for that;
// until then a plan takes a second request for each.
func (b *Bench) settle(ctx context.Context, vhost string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	look := b.broker.Endpoint + "/api/queues/" + url.PathEscape(vhost) +
		// not those of others, which are many
		"?page=1&page_size=500&name=tasks&columns=name,effective_policy_definition"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, look, nil)
	if err != nil {
		return err
	}
	request.SetBasicAuth(b.broker.Username, b.broker.Password)
	for {
		var queues struct{ Items []map[string]any }
		answer, err := http.DefaultClient.Do(request)
		if err == nil {
			err = errors.Join(json.NewDecoder(answer.Body).Decode(&queues), answer.Body.Close())
		}
		if err == nil && answer.StatusCode != http.StatusOK {
			err = errors.New(answer.Status)
		}
		if err != nil {
			return fmt.Errorf("wait until the broker tells which policies apply to the queues: %w", err)
		}
		if !slices.ContainsFunc(queues.Items, func(
			queue map[string]any) bool {
			return queue["effective_policy_definition"] == nil
		}) {
			return nil
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// step runs one command and records what it took.
func (b *Bench) step(ctx context.Context, s *subject, round int, name string, args ...string) error {
	requests, overHTTP, overAMQP := s.gateway.requests.Load(), s.gateway.connections.Load(), s.relay.connections.Load()
	r, err := s.workspace.run(ctx, args...)
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	overHTTP, overAMQP = s.gateway.connections.Load()-overHTTP, s.relay.connections.Load()-overAMQP
	for _, each := range []struct {
		metric, unit string
		value        float64
	}{
		{"time", "s", r.time.Seconds()},
		{"processor time", "s", r.cpu.Seconds()},
		{"requests", "", float64(s.gateway.requests.Load() - requests)},
		{"connections", "", float64(overHTTP + overAMQP)},
		{"AMQP connections", "", float64(overAMQP)},
		{"peak memory", "MiB", r.memory / (1 << 20)},
	} {
		err := b.recorder.Add(sample.Sample{
			Broker: b.broker.Version, Scenario: "terraform " + name + s.scenarios, Subject: s.name,
			Parameter: s.parameter, X: s.x, Metric: each.metric, Unit: each.unit, Round: round, Value: each.value,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// open gives a subject a vhost, with its queues of others, a way to the broker and a workspace.
func (b *Bench) open(ctx context.Context, t *terraform, s *subject) (_ func() error, err error) {
	var opened []func() error
	closeAll := func() (err error) {
		for _, each := range slices.Backward(opened) {
			err = errors.Join(err, each())
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll())
		}
	}()
	vhost, remove, err := b.broker.NewVhost(ctx, "bench")
	if err != nil {
		return nil, err
	}
	opened = append(opened, func() error {
		// With ten thousands of queues the broker takes longer than a request may.
		var err error
		for range 10 {
			if err = remove(context.WithoutCancel(ctx)); err == nil {
				break
			}
		}
		return err
	})
	if s.foreign > 0 {
		conn, err := b.broker.Dial(vhost)
		if err != nil {
			return nil, err
		}
		opened = append(opened, func() error { return conn.CloseDeadline(time.Now().Add(10 * time.Second)) })
		if err := crowd(conn, s.foreign); err != nil {
			return nil, err
		}
	}
	time.Sleep(s.rest)
	if s.gateway, err = newGateway(b.broker, s.latency); err != nil {
		return nil, err
	}
	opened = append(opened, func() error { s.gateway.Close(); return nil })
	uri, err := url.Parse(b.broker.AMQPURI)
	if err != nil {
		return nil, err
	}
	if s.relay, err = newRelay(uri.Host, s.latency); err != nil {
		return nil, err
	}
	opened = append(opened, s.relay.Close)
	uri.Host = s.relay.Addr().String()
	environ := []string{
		"RABBITMQ_ENDPOINT=" + s.gateway.URL, "RABBITMQ_USERNAME=" + b.broker.Username,
		"RABBITMQ_PASSWORD=" + b.broker.Password, "RABBITMQ_AMQP_URI=" + uri.String(), "TF_VAR_vhost=" + vhost,
	}
	s.vhost = vhost
	s.workspace, err = t.workspace(ctx, s.configuration, environ)
	return closeAll, err
}

// crowd fills the vhost with queues of others, each bound to an exchange of theirs. They go with the connection.
func crowd(conn *amqp.Connection, queues int) error {
	channel, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := channel.ExchangeDeclare("others", amqp.ExchangeTopic, true, false, false, false, nil); err != nil {
		return err
	}
	for i := range queues {
		name := fmt.Sprintf("other-%05d", i)
		// Without waiting for an answer; the last one is waited for.
		noWait := i < queues-1
		if _, err := channel.QueueDeclare(name, false, false, true, noWait, nil); err != nil {
			return err
		}
		if err := channel.QueueBind(name, name+".#", "others", noWait, nil); err != nil {
			return err
		}
	}
	return channel.Close()
}
