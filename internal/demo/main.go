// Demo shows the main job on a real broker: a cascade is planned and applied, carries messages with
// several delays, is damaged, repaired and destroyed. It exits with status 1 if any of that fails.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
)

// What examples/demo declares.
const (
	entry    = "demo.d.h.m.s"
	delivery = "demo.delivery"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	title("A broker")
	broker, err := brokertest.Start(ctx, os.Stdout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, broker.Stop()) }()
	tf, err := newTerraform(ctx, broker.Environ())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tf.directory)) }()
	defer func() {
		title("terraform destroy")
		err = errors.Join(err, tf.run(context.WithoutCancel(ctx), "destroy", "-auto-approve"))
	}()

	title("terraform plan, apply")
	if err := tf.run(ctx, "apply", "-auto-approve"); err != nil {
		return err
	}
	to, err := tf.publisher(ctx)
	if err != nil {
		return err
	}
	if err := send(ctx, broker, to); err != nil {
		return err
	}
	title("Damage: a queue deleted, and with it a binding; another binding added by a stranger")
	if err := damage(broker); err != nil {
		return err
	}
	title("terraform plan, apply: the damage and the repair")
	if err := tf.run(ctx, "apply", "-auto-approve"); err != nil {
		return err
	}
	title("terraform plan: nothing left to do")
	if err := tf.run(ctx, "plan", "-detailed-exitcode"); err != nil {
		return fmt.Errorf("the plan after the repair is not empty: %w", err)
	}
	return send(ctx, broker, to)
}

func title(text string) { fmt.Printf("\n=== %s\n\n", text) }

// terraform is a working directory with the example and a provider built from this checkout.
type terraform struct {
	binary, directory string
	environ           []string
}

func newTerraform(ctx context.Context, environ []string) (*terraform, error) {
	binary := os.Getenv("TF_ACC_TERRAFORM_PATH")
	if binary == "" {
		return nil, errors.New("TF_ACC_TERRAFORM_PATH is not set; run this with `make demo`")
	}
	directory, err := os.MkdirTemp("", "rabbitmqdelay-demo-")
	if err != nil {
		return nil, err
	}
	t := &terraform{binary: binary, directory: directory, environ: append(os.Environ(), environ...)}
	return t, t.setUp(ctx)
}

// setUp builds the provider into a mirror on disk, from which terraform init installs it.
func (t *terraform) setUp(ctx context.Context) error {
	mirror := filepath.Join(t.directory, "mirror")
	for _, host := range []string{"registry.terraform.io", "registry.opentofu.org"} {
		target := filepath.Join(mirror, host, "rabbitmqdelay", "rabbitmqdelay", "0.0.1", runtime.GOOS+"_"+
			runtime.GOARCH, "terraform-provider-rabbitmqdelay_v0.0.1")
		build := exec.CommandContext(ctx, "go", "build", "-o", target, ".")
		build.Stdout, build.Stderr = os.Stdout, os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("build the provider: %w", err)
		}
	}
	config := filepath.Join(t.directory, "terraformrc")
	text := fmt.Sprintf("disable_checkpoint = true\nprovider_installation {\n  filesystem_mirror {\n    path = "+
		"%q\n  }\n}\n", mirror)
	if err := os.WriteFile(config, []byte(text), fs.FileMode(0o600)); err != nil {
		return err
	}
	t.environ = append(t.environ, "TF_CLI_CONFIG_FILE="+config, "TF_IN_AUTOMATION=1")
	if err := os.CopyFS(filepath.Join(t.directory, "work"), os.DirFS("examples/demo")); err != nil {
		return err
	}
	return t.run(ctx, "init")
}

func (t *terraform) run(ctx context.Context, args ...string) error {
	return t.runInto(ctx, os.Stdout, args...)
}

// runInto writes what Terraform prints.
func (t *terraform) runInto(ctx context.Context, output io.Writer, args ...string) error {
	all := slices.Concat([]string{"-chdir=" + filepath.Join(t.directory, "work")}, args)
	if out, err := os.Stdout.Stat(); err != nil || out.Mode()&os.ModeCharDevice == 0 {
		all = append(all, "-no-color")
	}
	command := exec.CommandContext(ctx, t.binary, all...)
	command.Env = t.environ
	command.Stdout, command.Stderr = output, os.Stderr
	// An interrupted Terraform saves its state and ends by itself.
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", filepath.Base(t.binary), strings.Join(args, " "), err)
	}
	return nil
}

// publisher is the output of the example from which an application computes routing keys.
type publisher struct {
	EntryExchange string  `json:"entry_exchange"`
	UnitsMS       []int64 `json:"units_ms"`
	MaxDelayMS    int64   `json:"max_delay_ms"`
}

func (t *terraform) publisher(ctx context.Context) (to publisher, err error) {
	var output bytes.Buffer
	if err := t.runInto(ctx, &output, "output", "-json", "publisher"); err != nil {
		return to, err
	}
	return to, json.Unmarshal(output.Bytes(), &to)
}

// send publishes messages with several delays and prints when each arrives.
func send(ctx context.Context, broker *brokertest.Broker, to publisher) error {
	delays := []time.Duration{13 * time.Second, 10 * time.Second, 5 * time.Second, time.Second, 0}
	title("Messages, the longest delay sent first; " +
		"a routing key has days, hours, minutes, seconds, and then the address")
	scale, err := delay.PublisherScale(to.UnitsMS, to.MaxDelayMS)
	if err != nil {
		return err
	}
	conn, err := broker.Dial("/")
	if err != nil {
		return err
	}
	defer conn.Close()
	arrivals, err := brokertest.CollectFrom(conn, delivery, strings.Repeat("*.", scale.Levels())+"demo")
	if err != nil {
		return err
	}
	sender, err := brokertest.NewPublisher(conn)
	if err != nil {
		return err
	}
	sent := make([]time.Time, len(delays))
	keys := make([]string, len(delays))
	for i, delay := range delays {
		if keys[i], err = scale.RoutingKey(delay, "demo"); err != nil {
			return err
		}
		sent[i] = time.Now()
		message := amqp.Publishing{MessageId: strconv.Itoa(i), DeliveryMode: amqp.Persistent, Body: []byte("hello")}
		if err := sender.Publish(ctx, to.EntryExchange, keys[i], message); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	received, err := arrivals.Wait(ctx, len(delays))
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "asked\trouting key\tmeasured\tlate by\t")
	var early error
	for _, arrival := range received {
		i, err := strconv.Atoi(arrival.MessageId)
		if err != nil {
			return err
		}
		measured := arrival.At.Sub(sent[i])
		fmt.Fprintf(table, "%s\t%s\t%.3f s\t%d ms\t\n", plaintext.Duration(delays[i]), keys[i], measured.Seconds(),
			(measured - delays[i]).Milliseconds())
		if measured < delays[i] {
			early = fmt.Errorf("the message with a delay of %s arrived after %s", plaintext.Duration(delays[i]),
				plaintext.Duration(measured))
		}
	}
	return errors.Join(early, table.Flush())
}

// damaged is the queue in which messages wait for ten seconds.
const damaged = "demo.10s"

func damage(broker *brokertest.Broker) error {
	conn, err := broker.Dial("/")
	if err != nil {
		return err
	}
	defer conn.Close()
	channel, err := conn.Channel()
	if err != nil {
		return err
	}
	if _, err := channel.QueueDelete(damaged, false, false, false); err != nil {
		return err
	}
	fmt.Printf("deleted queue %q, in which messages wait for ten seconds\n", damaged)
	if err := channel.ExchangeBind("amq.fanout", "*.#", entry, false, nil); err != nil {
		return err
	}
	fmt.Printf("bound exchange %q to exchange \"amq.fanout\"\n", entry)
	return nil
}
