package rabbit_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"unicode"

	"github.com/hashicorp/terraform-plugin-log/tflogtest"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// hostile clears the screen, reverses the direction of reading, and writes into the log of a CI job.
const hostile = "\x1b[2J\u009b2J\u202eevil\u2066\n::error::pwned\r\n##vso[task.complete]\x00 ::error::wrapped"

// obeyed is what a terminal or a CI log would obey in a line.
func obeyed(line string) bool {
	return strings.ContainsFunc(line, func(r rune) bool { return r != ' ' && !unicode.IsPrint(r) }) ||
		strings.HasPrefix(line, "::") || strings.Contains(line, " ::error") || strings.Contains(line, "##vso[")
}

// Whatever a broker or a gateway answers is shown as text, in errors and in the log.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	vhost := brokertest.Vhost(t, brokertest.Shared(t))
	for _, status := range []int{302, 400, 401, 403, 404, 405, 407, 409, 429, 500, 503} {
		client := connect(t, gateway(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
			if r.Method != http.MethodPut {
				forward.ServeHTTP(w, r)
				return
			}
			w.Header().Set("Location", "http://\u202eevil.example.com/\u202e")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": "Object Not Found" + hostile,
				"reason": "it said: " + hostile})
		}), func(config *rabbit.Config) { config.RetryTimeout = 0 })
		var log lockedBuffer
		_, err := engine.Run(tflogtest.RootLogger(t.Context(), &log), client.Vhost(vhost),
			plan.Plan{{Steps: []plan.Step{plan.DeclareExchange{Exchange: topology.Exchange{Name: "x",
				Type: "topic", Durable: true}}}}})
		mustBePlain(t, http.StatusText(status), err)
		entries, logErr := tflogtest.MultilineJSONDecode(&log.lines)
		if logErr != nil || len(entries) == 0 {
			t.Fatalf("%d entries: %v", len(entries), logErr)
		}
		for _, entry := range entries {
			for field, value := range entry {
				if text, ok := value.(string); ok && obeyed(text) {
					t.Errorf("%d: the log has %s = %q", status, field, text)
				}
			}
		}
	}
}

// RabbitMQ itself repeats names as they are, over HTTP and over AMQP.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	b := brokertest.Shared(t)
	vhost := brokertest.Vhost(t, b)
	client := connect(t)
	const name = "\x1b[2J\u009b2J\u202eevil\u2066"
	exchange := topology.Exchange{Name: name, Type: "topic", Durable: true}
	declare := func(e topology.Exchange) error {
		_, err := engine.Run(t.Context(), client.Vhost(vhost),
			plan.Plan{{Steps: []plan.Step{plan.DeclareExchange{Exchange: e}}}})
		return err
	}
	if err := declare(exchange); err != nil {
		t.Fatal(err)
	}
	exchange.Type = "fanout"
	mustBePlain(t, "an exchange of another type", declare(exchange))
	probe := rabbit.Probe{Vhost: vhost, Exchange: "there is no" + exchange.Name, RoutingKey: name + "\n::error::pwned",
		Delivery: "amq.topic", BindingKey: name}
	_, err := client.Probe(t.Context(), probe)
	mustBePlain(t, "no exchange to publish to", err)
	probe.Exchange = exchange.Name
	_, err = client.Probe(t.Context(), probe)
	mustBePlain(t, "no queue behind the exchange", err)
	mustBePlain(t, "no vhost", func() error {
		_, err := client.Vhost(name+"\n::error::pwned").Read(t.Context(), topology.New())
		return err
	}())
	probe.Delivery = "no" + exchange.Name
	_, err = client.Probe(t.Context(), probe)
	mustBePlain(t, "no delivery exchange", err)
}

func mustBePlain(t *testing.T, what string, err error) {
	t.Helper()
	var described rabbit.Described
	if !errors.As(err, &described) {
		t.Errorf("%s: the error is %v", what, err)
		return
	}
	texts := append(strings.Split(described.Detail(), "\n"), err.Error(), described.Summary())
	for _, text := range texts {
		if obeyed(text) {
			t.Errorf("%s: the error says %q", what, text)
		}
	}
}
