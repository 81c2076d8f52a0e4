// Bench measures cascades on real brokers and writes what it measured as CSV, with a description of the machine
// beside each file. It is run by `make bench`; internal/tools/benchreport makes tables and plots of the files.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/bench/control"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/bench/dataplane"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/bench/sample"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

func main() {
	brokertest.Guard()
	short := flag.Bool("short", false, "measure in two minutes what a change can be judged by")
	images := flag.String("images", "", "container images of RabbitMQ, separated by spaces, to measure in turn; "+
		"otherwise one broker as the tests find it")
	only := flag.String("only", ".", "measure only what matches: "+strings.Join(names(), ", "))
	out := flag.String("out", ".cache/bench", "directory for the samples, a file for each suite and broker")
	messages := flag.Int("messages", 1_000_000, "size of the backlog")
	rounds := flag.Int("rounds", 0, "number of rounds in place of the usual one of each suite")
	flag.Parse()
	began := time.Now()
	if err := run(*short, strings.Fields(*images), *only, *out, *messages, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	fmt.Printf("measured in %s\n", time.Since(began).Round(time.Second))
}

// suite is a set of measurements that run in one go on one broker.
type suite struct {
	name    string
	measure func(context.Context, *brokertest.Broker, *sample.Recorder, settings) error
}

var suites = []suite{
	{"publish", onData(func(ctx context.Context, b *dataplane.Bench, s settings) error {
		return b.Publish(ctx, s.publish)
	})},
	{"deadletter", onData(func(ctx context.Context, b *dataplane.Bench, s settings) error {
		return b.DeadLetter(ctx, s.deadLetter)
	})},
	{"layouts", onData(func(ctx context.Context, b *dataplane.Bench, s settings) error {
		return b.Layouts(ctx, s.layouts)
	})},
	{"paced", onData(func(ctx context.Context, b *dataplane.Bench, s settings) error { return b.Paced(ctx, s.paced) })},
	{"backlog", onData(func(ctx context.Context, b *dataplane.Bench, s settings) error {
		return b.Backlog(ctx, s.backlog)
	})},
	{"units-rates", onData(func(ctx context.Context, b *dataplane.Bench, s settings) error {
		return b.PublishUnits(ctx, s.units)
	})},
	{"units-idle", onData(func(ctx context.Context, b *dataplane.Bench, s settings) error {
		return b.IdleUnits(ctx, s.units)
	})},
	{"units", func(ctx context.Context, b *brokertest.Broker, r *sample.Recorder, s settings) error {
		data := onData(func(ctx context.Context, b *dataplane.Bench, s settings) error { return b.Units(ctx, s.units) })
		if err := data(ctx, b, r, s); err != nil {
			return err
		}
		return control.New(b, r).Units(ctx, s.control)
	}},
	{"cluster", inCluster(dataplane.Cluster)},
	{"cluster-idle", inCluster(dataplane.ClusterIdle)},
	{"terraform", func(ctx context.Context, b *brokertest.Broker, r *sample.Recorder, s settings) error {
		return control.New(b, r).Run(ctx, s.control)
	}},
	{"foreign", func(ctx context.Context, b *brokertest.Broker, r *sample.Recorder, s settings) error {
		return control.New(b, r).Beside(ctx, s.control)
	}},
}

func names() []string {
	var names []string
	for _, s := range suites {
		names = append(names, s.name)
	}
	return names
}

func onData(
	measure func(context.Context, *dataplane.Bench, settings) error,
) func(context.Context, *brokertest.Broker, *sample.Recorder, settings) error {
	return func(ctx context.Context, b *brokertest.Broker, r *sample.Recorder, s settings) error {
		bench, err := dataplane.New(b, r)
		if err != nil {
			return err
		}
		return measure(ctx, bench, s)
	}
}

// inCluster measures in a cluster of containers of the broker's image. Each has a share of a core, so that
// a node is busy before the machine is. The broker stands idle meanwhile.
func inCluster(
	measure func(context.Context, *brokertest.Cluster, *sample.Recorder, dataplane.ClusterOptions) error,
) func(context.Context, *brokertest.Broker, *sample.Recorder, settings) error {
	return func(ctx context.Context, b *brokertest.Broker, r *sample.Recorder, s settings) (err error) {
		const nodes, cores = 3, 0.4
		image, isContainer := strings.CutPrefix(b.Source, "container ")
		if !isContainer {
			fmt.Println("cluster: left out, because it takes containers: name an image")
			return nil
		}
		cluster, err := brokertest.StartCluster(ctx, os.Stdout, image, nodes, brokertest.WithCores(cores))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, cluster.Stop()) }()
		return measure(ctx, cluster, r, s.cluster)
	}
}

func run(short bool, images []string, only, out string, messages, rounds int) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	wanted, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	settings := long(messages, rounds)
	if short {
		settings = brief()
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	if !slices.ContainsFunc(settings.suites, wanted.MatchString) {
		return fmt.Errorf("nothing to measure: %q is none of %s", only, strings.Join(settings.suites, ", "))
	}
	for _, b := range brokers(images) {
		if err := measure(ctx, b, settings, wanted, out); err != nil {
			return err
		}
	}
	return nil
}

// brokers are the options to start each broker with.
func brokers(images []string) [][]brokertest.Option {
	if len(images) == 0 {
		return [][]brokertest.Option{nil}
	}
	var all [][]brokertest.Option
	for _, image := range images {
		all = append(all, []brokertest.Option{brokertest.WithImage(image)})
	}
	return all
}

// measure runs the suites on one broker.
func measure(
	ctx context.Context, options []brokertest.Option, s settings, wanted *regexp.Regexp, out string,
) (err error) {
	b, err := brokertest.Start(ctx, os.Stdout, options...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Stop()) }()
	for _, suite := range suites {
		if s.has(suite.name) && wanted.MatchString(suite.name) {
			if err := suite.run(ctx, b, s, out); err != nil {
				return fmt.Errorf("RabbitMQ %s, %s: %w", b.Version, suite.name, err)
			}
		}
	}
	return nil
}

// run writes a file of samples and one that says where and when they were taken. It replaces those of an earlier run.
func (s suite) run(ctx context.Context, b *brokertest.Broker, settings settings, out string) (err error) {
	name := filepath.Join(out, s.name+"-"+b.Version)
	file, err := os.Create(name + ".csv")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	recorder, err := sample.NewRecorder(file, os.Stdout)
	if err != nil {
		return err
	}
	m := describe(ctx)
	m.Suite, m.Broker, m.Erlang, m.LoadBefore = s.name, fmt.Sprintf("%s (%s)", b.Version, b.Source), erlang(ctx, b),
		loadAverage()
	if err := s.measure(ctx, b, recorder, settings); err != nil {
		return err
	}
	m.Took, m.LoadAfter = time.Since(m.Date).Round(time.Second).String(), loadAverage()
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(name+".json", append(text, '\n'), 0o644)
}

// machine is what a reader of the figures wants to know of where they come from.
type machine struct {
	Suite     string    `json:"suite"`
	Broker    string    `json:"broker"`
	Erlang    string    `json:"erlang"` // its release, empty for a broker that runs already
	Date      time.Time `json:"date"`
	Took      string    `json:"took"`
	Commit    string    `json:"commit"`
	Processor string    `json:"processor"`
	Cores     int       `json:"cores"`
	Memory    string    `json:"memory"`
	System    string    `json:"system"`
	Go        string    `json:"go"`
	Terraform string    `json:"terraform"`
	// LoadBefore is what else the machine was doing: its load average of a minute.
	LoadBefore string `json:"load_before"`
	LoadAfter  string `json:"load_after"`
}

// release is a kernel's version without what its builder adds.
var release = regexp.MustCompile(`^[0-9.]*[0-9]`)

func describe(ctx context.Context) machine {
	return machine{
		Date:      time.Now().UTC().Truncate(time.Second),
		Commit:    firstLine(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"),
		Processor: field("/proc/cpuinfo", "model name"),
		Cores:     runtime.NumCPU(),
		Memory:    field("/proc/meminfo", "MemTotal"),
		System:    firstLine(ctx, "uname", "-s") + " " + release.FindString(firstLine(ctx, "uname", "-r")),
		Go:        runtime.Version(),
		Terraform: firstLine(ctx, os.Getenv("TF_ACC_TERRAFORM_PATH"), "version"),
	}
}

func erlang(ctx context.Context, b *brokertest.Broker) string {
	out, err := b.CLI(ctx, "rabbitmqctl", "eval", "erlang:system_info(otp_release).")
	if err != nil {
		return "" // like firstLine
	}
	return strings.Trim(strings.TrimSpace(string(out)), `"`)
}

// firstLine is empty where the command does not run: what it tells is not there to fail for.
func firstLine(ctx context.Context, command string, args ...string) string {
	out, _ := exec.CommandContext(ctx, command, args...).Output()
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}

func field(file, name string) string {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
