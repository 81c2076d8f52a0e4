package acceptance

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/version"
)

// monitoringExample has what operators load into Prometheus and Grafana.
const monitoringExample = "monitoring"

// TestMonitoringRules has Prometheus' own tool check the files of the example, and run the tests of the rules.
func TestMonitoringRules(t *testing.T) {
	t.Parallel()
	promtool := installed(t, "promtool")
	for _, arguments := range [][]string{
		{"check", "config", "--syntax-only", "prometheus.yml"},
		{"check", "config", "--syntax-only", "prometheus-3.yml"},
		{"check", "rules", "rules.yml"},
		{"test", "rules", "rules_test.yml"},
	} {
		command := exec.CommandContext(t.Context(), promtool, arguments...)
		command.Dir = filepath.Join(docstest.Examples, monitoringExample)
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", arguments, err, out)
		}
	}
}

// TestMonitoringAlerts makes sure that each alert is tested, and names a page that explains it.
func TestMonitoringAlerts(t *testing.T) {
	t.Parallel()
	rules, tests := docstest.ReadExample(t, monitoringExample, "rules.yml"), docstest.ReadExample(t, monitoringExample,
		"rules_test.yml")
	page := regexp.MustCompile(`runbook_url: ` + regexp.QuoteMeta(docstest.Registry) + `(\S+)#(\S+)\n`)
	alerts := strings.Split(rules, "- alert: ")[1:]
	for _, alert := range alerts {
		name, _, _ := strings.Cut(alert, "\n")
		if !strings.Contains(tests, `alertname="`+name+`"`) {
			t.Errorf("rules_test.yml has no %s", name)
		}
		found := page.FindStringSubmatch(alert)
		if found == nil {
			t.Errorf("%s names no page", name)
		} else if !anchors(docstest.ReadPage(t, "docs/"+found[1]+".md"))[found[2]] {
			t.Errorf("%s: the page %s has no heading %s", name, found[1], found[2])
		}
	}
	if len(alerts) == 0 {
		t.Error("there are no alerts")
	}
}

// TestAccMonitoring loads the example into Prometheus. It makes each fault on a queue of its own, sees the alerts of
// just these queues, repairs the faults, and sees the alerts go. Meanwhile each query of the dashboard finds something,
// for the cascade with units and for the ladder.
func TestAccMonitoring(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	t.Parallel()
	program := installed(t, "prometheus")
	// Intervals of seconds and minutes are shorter here: counts of queues and of channels, and the second try after a
	// queue has refused a message.
	b := brokertest.Own(t, brokertest.WithMetrics(),
		brokertest.WithConfig("collect_statistics_interval = 1000"),
		brokertest.WithSetting("quorum_tick_interval", 1000),
		brokertest.WithSetting("dead_letter_worker_publisher_confirm_timeout", 2000))
	m := monitored{Vhost: harness.OpenVhost(t, b, "/")}
	m.DeclareQueue("billing", map[string]any{"x-queue-type": "quorum"})
	m.watch(program, m.facts())
	m.Consume("billing")

	stop := m.flow()
	m.Eventually("Prometheus counts what is published and delivered", func() bool {
		return len(monitoredWays) == len(m.queried(
			"rabbitmqdelay:published:rate5m > 0 and on (name) rabbitmqdelay:delivered:rate5m > 0"))
	})
	m.mustFire()
	repairs := []func(){m.delay()}
	var alerts []string
	for alert, fault := range map[string]func() (repair func()){
		"DelayMessagesParked orders.unroutable": func() func() { return m.park("orders") },
		"DelayMessagesParked retry.unroutable":  func() func() { return m.park("retry") },
		"DelayQueueJammed orders.3s":            func() func() { return m.jam("orders") },
		"DelayQueueJammed retry.delay-3s":       func() func() { return m.jam("retry") },
		"DelayQueueConsumed orders.50s":         m.takeEarly,
		"DelayQueueWithoutLeader orders.1m10s":  m.stopLeader,
		"DelayQueueNearlyFull orders.1m30s":     m.fill,
	} {
		alerts, repairs = append(alerts, alert), append(repairs, fault())
	}
	// The messages that cannot go on are overdue.
	alerts = append(alerts, "DelayMessagesOverdue orders.3s", "DelayMessagesOverdue retry.delay-3s")
	m.mustFire(alerts...)
	if n := m.mustShow("orders")["in 10 minutes"]; n != 17 {
		t.Errorf("17 messages of the cascade are due after 90 s, and %v by the dashboard", n)
	}
	if n := m.mustShow("retry")["in 1 minute"]; n < 5 {
		t.Errorf("5 messages of the ladder are overdue, and %v wait by the dashboard", n)
	}
	for _, repair := range repairs {
		repair()
	}
	m.mustFire()

	stop()
	m.mustFire("DelayEntryUnused")
	stop = m.flow()
	m.mustFire()
	m.unreachable.Store(true)
	m.mustFire("DelayUnwatched")
	m.unreachable.Store(false)
	m.mustFire()
	stop()
}

// installed is the file of a program of Prometheus.
func installed(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("there is no %s on PATH: install the package prometheus", program)
	}
	return path
}

// monitored is the broker with the cascade and the ladder of the example, and a Prometheus that watches it.
type monitored struct {
	*harness.Vhost
	prometheus  string // address of its API
	unreachable atomic.Bool
}

// way is how messages for one second and for three get into a cascade or ladder, and how they leave it.
type way struct {
	entry, second, three string
	levels               int
}

// monitoredWays are those of the example, with smaller numbers, by the name of each.
var monitoredWays = map[string]way{
	"orders": {entry: "orders.10s.s", second: "0.1.", three: "0.3.", levels: 2},
	"retry":  {entry: "retry.entry", second: "1s.", three: "3s.", levels: 1},
}

// facts applies the example, with a smaller cascade and ladder, and is what Terraform puts out for Prometheus.
func (m *monitored) facts() string {
	m.T.Helper()
	tf := m.CommandLine()
	docstest.WriteExample(m.T, tf.Directory, "main.tf", m.edited("main.tf", "max_length = 100000", "max_length = 20",
		`"rabbitmqdelay_cascade" "orders" {`, `"rabbitmqdelay_cascade" "orders" {
  units     = ["10s", "1s"]
  max_delay = "90s"`, `["5s", "1m"]`, `["1s", "3s"]`))
	tf.MustRun("apply", "-auto-approve")
	return tf.MustRun("output", "-raw", "prometheus_facts")
}

// edited is a file of the example with one text replaced by another, for each two.
func (m *monitored) edited(file string, replacements ...string) string {
	m.T.Helper()
	text := docstest.ReadExample(m.T, monitoringExample, file)
	for pair := range slices.Chunk(replacements, 2) {
		if !strings.Contains(text, pair[0]) {
			m.T.Fatalf("%s does not say %q", file, pair[0])
		}
		text = strings.ReplaceAll(text, pair[0], pair[1])
	}
	return text
}

// watch starts Prometheus with the example's configuration, but for times: seconds in place of minutes.
func (m *monitored) watch(program, facts string) {
	m.T.Helper()
	metrics, err := url.Parse(m.Broker.MetricsEndpoint)
	if err != nil {
		m.T.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(metrics)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m.unreachable.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	m.T.Cleanup(target.Close)

	configuration := "prometheus.yml"
	if strings.HasPrefix(m.Broker.Version, "3.") {
		configuration = "prometheus-3.yml"
	}
	rules := docstest.ReadExample(m.T, monitoringExample, "rules.yml")
	rules = regexp.MustCompile(`\[\d+[a-z]\]`).ReplaceAllString(rules, "[10s]")
	rules = regexp.MustCompile(`offset \d+[a-z]`).ReplaceAllString(rules, "offset 10s")
	rules = regexp.MustCompile(`(?m)^( +for:) .*$`).ReplaceAllString(rules, "$1 2s")
	directory := m.T.TempDir()
	docstest.WriteExample(m.T, directory, "prometheus.yml", m.edited(configuration,
		"rabbitmq:15692", strings.TrimPrefix(target.URL, "http://"), "15s", "1s"))
	docstest.WriteExample(m.T, directory, "facts.yml", facts)
	docstest.WriteExample(m.T, directory, "rules.yml", rules)

	address := freeAddress(m.T)
	m.prometheus = "http://" + address + "/api/v1/"
	var log strings.Builder
	command := exec.CommandContext(m.T.Context(), program, "--config.file=prometheus.yml", "--storage.tsdb.path=data",
		"--web.listen-address="+address, "--log.level=warn")
	command.Dir, command.Stdout, command.Stderr = directory, &log, &log
	if err := command.Start(); err != nil {
		m.T.Fatal(err)
	}
	m.T.Cleanup(func() {
		_ = command.Wait() // the end of the test has killed it
		if m.T.Failed() {
			m.T.Log(log.String())
		}
	})
	m.Eventually("Prometheus answers", func() bool {
		response, err := http.Get(m.prometheus + "status/runtimeinfo")
		if err == nil {
			_ = response.Body.Close()
		}
		return err == nil && response.StatusCode == http.StatusOK
	})
}

// freeAddress is one on which nothing listens. The system does not give out its port by itself, so that no test beside
// this one gets the port meanwhile.
func freeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(10_000)) //nolint:gosec // of a test
		if listener, err := net.Listen("tcp", address); err == nil {
			_ = listener.Close()
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}

// asks has Prometheus answer a request of its API.
func (m *monitored) asks(request string, parameters url.Values, data any) {
	m.T.Helper()
	response, err := http.Get(m.prometheus + request + "?" + parameters.Encode())
	if err != nil {
		m.T.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Status != "success" {
		m.T.Fatalf("%s %s: %v %s", request, parameters, err, answer.Error)
	}
}

// mustFire waits until these alerts fire and no others, each with the queue that it names.
func (m *monitored) mustFire(alerts ...string) {
	m.T.Helper()
	slices.Sort(alerts)
	var firing []string
	defer func() {
		if m.T.Failed() {
			m.T.Logf("firing: %s", strings.Join(firing, ", "))
		}
	}()
	m.Eventually("fire: "+strings.Join(alerts, ", "), func() bool {
		var data struct {
			Alerts []struct {
				State               string
				Labels, Annotations map[string]string
			}
		}
		m.asks("alerts", nil, &data)
		names := map[string]bool{}
		for _, alert := range data.Alerts {
			if alert.State == "firing" {
				names[strings.TrimSpace(alert.Labels["alertname"]+" "+alert.Labels["queue"])] = true
			}
			if text := strings.Join(slices.Collect(maps.Values(alert.Annotations)), " "); strings.Contains(text, "<") {
				m.T.Fatalf("an annotation has no value: %s", text) // <no value>, or <error expanding template>
			}
		}
		firing = slices.Sorted(maps.Keys(names))
		return slices.Equal(firing, alerts)
	})
}

// mustShow makes sure that each query and each variable of the dashboard finds something for a cascade or ladder. The
// result is the first value of each query by its legend.
func (m *monitored) mustShow(name string) map[string]float64 {
	m.T.Helper()
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
		Templating struct {
			List []struct{ Name, Type, Query string }
		}
	}
	if err := json.Unmarshal([]byte(docstest.ReadExample(m.T, monitoringExample, "dashboard.json")),
		&dashboard); err != nil {
		m.T.Fatal(err)
	}
	choice := strings.NewReplacer("$job", "rabbitmq-detailed", "$vhost", m.Name, "$name", name)
	labelValues := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	for _, variable := range dashboard.Templating.List {
		if variable.Type != "query" {
			continue
		}
		found := labelValues.FindStringSubmatch(choice.Replace(variable.Query))
		var data []string
		if found != nil {
			m.asks("label/"+found[2]+"/values", url.Values{"match[]": {found[1]}}, &data)
		}
		if want := choice.Replace("$" + variable.Name); !slices.Contains(data, want) {
			m.T.Errorf("variable %s cannot be %q but %q", variable.Name, want, data)
		}
	}
	values := map[string]float64{}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			found := m.queried(choice.Replace(target.Expr))
			if len(found) == 0 {
				m.T.Errorf("panel %q finds nothing for %s: %s", panel.Title, name, target.Expr)
			} else if value, err := strconv.ParseFloat(found[0], 64); err != nil {
				m.T.Errorf("panel %q, %s: %v", panel.Title, target.Expr, err)
			} else {
				values[target.LegendFormat] = value
			}
		}
	}
	if len(values) == 0 {
		m.T.Error("the dashboard has no queries")
	}
	return values
}

// queried are the values that an expression has now.
func (m *monitored) queried(expression string) (values []string) {
	m.T.Helper()
	var data struct {
		Result []struct{ Value [2]any } // time and value
	}
	m.asks("query", url.Values{"query": {expression}}, &data)
	for _, sample := range data.Result {
		text, _ := sample.Value[1].(string)
		values = append(values, text)
	}
	return values
}

// flow keeps messages for one second on their ways until it is stopped.
func (m *monitored) flow() (stop func()) {
	m.T.Helper()
	publisher := m.Publisher()
	done := make(chan struct{})
	var publishing sync.WaitGroup
	publishing.Go(func() {
		for {
			for _, w := range monitoredWays {
				err := publisher.Publish(m.T.Context(), w.entry, w.second+"billing", amqp.Publishing{})
				if err != nil {
					m.T.Error(err)
					return
				}
			}
			select {
			case <-done:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	stop = sync.OnceFunc(func() {
		close(done)
		publishing.Wait()
	})
	m.T.Cleanup(stop)
	return stop
}

// park sends a message whose key no binding matches.
func (m *monitored) park(name string) (repair func()) {
	m.Publish(monitoredWays[name].entry, "malformed", "")
	return func() { m.Purge(name + ".unroutable") }
}

// jam sends messages to a receiver whose queue is full.
func (m *monitored) jam(name string) (repair func()) {
	w := monitoredWays[name]
	m.DeclareQueue("full", map[string]any{"x-queue-type": "quorum", "x-max-length": 1, "x-overflow": "reject-publish"})
	m.Bind(name+".delivery", harness.DestinationKey(w.levels, "full"), "queue", "full")
	var err error
	for filler := m.Publisher(); err == nil; {
		err = filler.Publish(m.T.Context(), "", "full", amqp.Publishing{})
	}
	if !errors.Is(err, brokertest.ErrNacked) {
		m.T.Fatal(err)
	}
	for range 5 {
		m.Publish(w.entry, w.three+"full", "")
	}
	return func() { m.Consume("full") }
}

// delay has a delay queue delay messages by itself, where it can. That is no fault.
func (m *monitored) delay() (repair func()) {
	const queue = "orders.9s"
	if !version.AtLeast(m.Broker.Version, 4, 3) {
		return func() {}
	}
	m.Policy("retries", 0, rabbithole.PolicyDefinition{"delayed-retry-type": "all",
		"delayed-retry-min": time.Hour.Milliseconds()})("^" + queue + "$")
	m.Eventually("the policy is in force", func() bool {
		var answer struct {
			Retry string `json:"delayed_retry"`
		}
		m.Get(&answer, "queues", m.Name, queue)
		return strings.HasPrefix(answer.Retry, "all")
	})
	putBack(m.Vhost, queue)
	m.Eventually("Prometheus counts what the queue delays", func() bool {
		return len(m.queried(fmt.Sprintf("rabbitmqdelay:messages{queue=%q} == %d", queue, retriedMessages))) > 0
	})
	return func() { m.Purge(queue) }
}

// takeEarly consumes a delay queue.
func (m *monitored) takeEarly() (repair func()) {
	channel, err := m.Conn.Channel()
	if err == nil {
		_, err = channel.Consume("orders.50s", "", false, false, false, false, nil)
	}
	if err != nil {
		m.T.Fatal(err)
	}
	return func() {
		if err := channel.Close(); err != nil {
			m.T.Error(err)
		}
	}
}

// stopLeader stops the only member of a delay queue.
func (m *monitored) stopLeader() (repair func()) {
	server := func(does string) {
		if _, err := m.Broker.CLI(m.T.Context(), "rabbitmqctl", "eval",
			"ra:"+does+"_server(quorum_queues, {'%2F_orders.1m10s', node()})."); err != nil {
			m.T.Fatal(err)
		}
	}
	server("stop")
	return func() { server("restart") }
}

// fill sends as many messages as nearly fill a delay queue.
func (m *monitored) fill() (repair func()) {
	for range 17 {
		m.Publish("orders.10s.s", "9.0.billing", "")
	}
	return func() { m.Purge("orders.1m30s") }
}
