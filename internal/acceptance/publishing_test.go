package acceptance

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay/delaytest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plan"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// language is how the snippets of a language below examples/publishing are run.
type language struct {
	// probes are commands one of which has to succeed where the snippets can be run. The first one that succeeds is the
	// interpreter, with its arguments before the program.
	probes [][]string
	// keys prints the key, or "error", for each line of standard input. That has the delay, the units and the longest
	// delay, all in milliseconds, and the address. Tabs separate them, and commas the units.
	keys driver
	// cascade prints what the snippet reads from PUBLISHER, separated by spaces, and the units by commas.
	cascade driver
	// parse says whether the snippets are well-formed, where they cannot be run.
	parse []string
	// library is a program that succeeds where the client library is; publish is the snippet. Without them the
	// snippet is not run.
	library, publish string
}

// driver is a program that is put beside the snippets and calls one.
type driver struct {
	file, program string
	// needs is a file without which the driver cannot be built.
	needs string
	// build makes a program of the driver and the snippet, where the interpreter takes no source.
	build []string
	// run starts the built program, or else follows the interpreter.
	run []string
}

var languages = map[string]language{
	"go": {
		probes: [][]string{{"go", "version"}},
		keys: driver{
			file: "driver.go", program: `package main

import ("bufio"; "fmt"; "os"; "strconv"; "strings"; "time")

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		f := strings.Split(lines.Text(), "\t")
		delay, _ := time.ParseDuration(f[0] + "ms")
		var units []int64
		for _, text := range strings.Split(f[1], ",") {
			unit, _ := strconv.ParseInt(text, 10, 64)
			units = append(units, unit)
		}
		longest, _ := strconv.ParseInt(f[2], 10, 64)
		key, err := RoutingKey(delay, units, longest, f[3])
		if err != nil { key = "error" }
		fmt.Println(key)
	}
}`,
			build: []string{"go", "build", "-o", "keys", "routingkey.go", "driver.go"},
			run:   []string{"./keys"},
		},
		cascade: driver{
			file: "driver.go", program: `package main

import ("fmt"; "log"; "os"; "strings")

func main() {
	c, err := CascadeFromEnvironment()
	if err != nil { log.SetFlags(0); log.Print(err); os.Exit(2) }
	units := strings.ReplaceAll(strings.Trim(fmt.Sprint(c.UnitsMS), "[]"), " ", ",")
	fmt.Println(c.EntryExchange, units, c.MaxDelayMS)
}`,
			build: []string{"go", "build", "-o", "cascade", "cascade.go", "routingkey.go", "driver.go"},
			run:   []string{"./cascade"},
		},
	},
	"python": {
		probes: [][]string{{"/usr/bin/python3", "--version"}, {"python3", "--version"}},
		keys: driver{
			file: "driver.py", program: `import sys
from routing_key import routing_key
for line in sys.stdin:
    delay, units, longest, address = line.rstrip("\n").split("\t")
    try:
        print(routing_key(int(delay), [int(unit) for unit in units.split(",")], int(longest), address))
    except ValueError:
        print("error")`,
			run: []string{"driver.py"},
		},
		cascade: driver{
			file: "driver.py", program: `from cascade import cascade_from_environment
cascade = cascade_from_environment()
print(cascade.entry_exchange, ",".join(map(str, cascade.units_ms)), cascade.max_delay_ms)`,
			run: []string{"driver.py"},
		},
		library: `import pika`, publish: "publish.py",
	},
	"javascript": {
		probes: [][]string{{"node", "--version"}},
		keys: driver{
			file: "driver.js", program: `const { routingKey } = require('./routing-key');
for (const line of require('fs').readFileSync(0, 'utf8').trimEnd().split('\n')) {
  const [delay, units, longest, address] = line.split('\t');
  try {
    console.log(routingKey(Number(delay), units.split(',').map(Number), Number(longest), address));
  } catch (error) {
    console.log('error');
  }
}`,
			run: []string{"driver.js"},
		},
		cascade: driver{
			file: "driver.js", program: `const c = require('./cascade').cascadeFromEnvironment();
console.log(c.entryExchange, c.unitsMs.join(','), c.maxDelayMs);`,
			run: []string{"driver.js"},
		},
		parse:   []string{"node", "--check", "publish.js"},
		library: `require('amqplib')`, publish: "publish.js",
	},
	"php": {
		probes: [][]string{{"php", "--version"}},
		keys: driver{
			file: "driver.php", program: `<?php
declare(strict_types=1);
require 'routing_key.php';
while (($line = fgets(STDIN)) !== false) {
    [$delay, $units, $longest, $address] = explode("\t", rtrim($line, "\n"));
    try {
        echo routingKey((int) $delay, array_map('intval', explode(',', $units)), (int) $longest, $address), "\n";
    } catch (RangeException $e) {
        echo "error\n";
    }
}`,
			run: []string{"driver.php"},
		},
		cascade: driver{
			file: "driver.php", program: `<?php
require 'cascade.php';
$c = Cascade::fromEnvironment();
echo $c->entryExchange, ' ', implode(',', $c->unitsMs), ' ', $c->maxDelayMs, "\n";`,
			run: []string{"driver.php"},
		},
		library: `<?php if (!stream_resolve_include_path('PhpAmqpLib/autoload.php') && ` +
			`!is_file('vendor/autoload.php')) { exit(1); }`, publish: "publish.php",
	},
	"ruby": {
		probes: [][]string{{"ruby", "--version"}},
		keys: driver{
			file: "driver.rb", program: `require_relative 'routing_key'
STDIN.set_encoding('UTF-8')
STDIN.each_line(chomp: true) do |line|
  delay, units, longest, address = line.split("\t", -1)
  puts routing_key(Integer(delay), units.split(',').map { |unit| Integer(unit) }, Integer(longest), address)
rescue ArgumentError
  puts 'error'
end`,
			run: []string{"driver.rb"},
		},
		cascade: driver{
			file: "driver.rb", program: `require_relative 'cascade'
cascade = cascade_from_environment
puts [cascade[:entry_exchange], cascade[:units_ms].join(','), cascade[:max_delay_ms]].join(' ')`,
			run: []string{"driver.rb"},
		},
		library: `require 'bunny'`, publish: "publish.rb",
	},
	"java": {
		probes: [][]string{{"javac", "-version"}},
		keys: driver{
			file: "Driver.java", program: `import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.stream.*;

class Driver {
    public static void main(String[] args) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        for (String line; (line = in.readLine()) != null; ) {
            String[] f = line.split("\t", -1);
            List<Long> units = Arrays.stream(f[1].split(",")).map(Long::valueOf).collect(Collectors.toList());
            try {
                out.println(RoutingKey.of(Long.parseLong(f[0]), units, Long.parseLong(f[2]), f[3]));
            } catch (IllegalArgumentException e) {
                out.println("error");
            }
        }
    }
}`,
			build: []string{"javac", "-encoding", "UTF-8", "RoutingKey.java", "Driver.java"},
			run:   []string{"java", "-cp", ".", "Driver"},
		},
		cascade: driver{
			file: "Driver.java", program: `import java.util.stream.Collectors;

class Driver {
    public static void main(String[] args) {
        Cascade c = Cascade.fromEnvironment();
        String units = c.unitsMillis().stream().map(String::valueOf).collect(Collectors.joining(","));
        System.out.println(c.entryExchange() + " " + units + " " + c.maxDelayMillis());
    }
}`,
			needs: "/usr/share/java/jackson-databind.jar",
			build: []string{"javac", "-encoding", "UTF-8", "-cp", jackson, "Cascade.java", "Driver.java"},
			run:   []string{"java", "-cp", jackson, "Driver"},
		},
	},
	"csharp": {
		probes: [][]string{{"mcs", "--version"}},
		keys: driver{
			file: "Driver.cs", program: `using System;

static class Driver
{
    static void Main()
    {
        Console.InputEncoding = Console.OutputEncoding = new System.Text.UTF8Encoding(false);
        for (string line; (line = Console.ReadLine()) != null;)
        {
            string[] f = line.Split('\t');
            TimeSpan delay = TimeSpan.FromMilliseconds(long.Parse(f[0]));
            long[] units = Array.ConvertAll(f[1].Split(','), long.Parse);
            try
            {
                Console.WriteLine(RoutingKey.Of(delay, units, long.Parse(f[2]), f[3]));
            }
            catch (ArgumentException)
            {
                Console.WriteLine("error");
            }
        }
    }
}`,
			build: []string{"mcs", "-out:driver.exe", "RoutingKey.cs", "Driver.cs"},
			run:   []string{"mono", "driver.exe"},
		},
		parse: []string{"mcs", "--parse", "DelayedPublisher.cs", "Cascade.cs"},
	},
}

const jackson = ".:/usr/share/java/jackson-databind.jar:/usr/share/java/jackson-core.jar:" +
	"/usr/share/java/jackson-annotations.jar"

// start puts the driver beside the snippets of the language and returns the directory and the command that runs it.
func (l language) start(t *testing.T, name string, d driver) (directory string, command []string) {
	t.Helper()
	interpreter := l.interpreter(t, "")
	if d.needs != "" {
		if _, err := os.Stat(d.needs); err != nil {
			t.Skip(err)
		}
	}
	directory = t.TempDir()
	if err := os.CopyFS(directory, os.DirFS(filepath.Join(docstest.Examples, "publishing", name))); err != nil {
		t.Fatal(err)
	}
	docstest.WriteExample(t, directory, d.file, d.program)
	if l.parse != nil {
		docstest.RunIn(t, directory, nil, "", l.parse...)
	}
	if d.build == nil {
		return directory, append(interpreter, d.run...)
	}
	docstest.RunIn(t, directory, nil, "", d.build...)
	return directory, d.run
}

// interpreter is the first of the probes' commands that runs, and has the library if one is asked for.
func (l language) interpreter(t *testing.T, library string) []string {
	t.Helper()
	var reasons []string
	for _, probe := range l.probes {
		if out, err := exec.CommandContext(t.Context(), probe[0], probe[1:]...).CombinedOutput(); err != nil {
			reasons = append(reasons, fmt.Sprintf("%s: %v %s", strings.Join(probe, " "), err, out))
			continue
		}
		if library != "" {
			file := filepath.Join(t.TempDir(), "library"+filepath.Ext(l.keys.file))
			docstest.WriteExample(t, filepath.Dir(file), filepath.Base(file), library)
			if out, err := exec.CommandContext(t.Context(), probe[0], file).CombinedOutput(); err != nil {
				reasons = append(reasons, fmt.Sprintf("%s has no client library: %s", probe[0], complaint(out)))
				continue
			}
		}
		return probe[:1:1]
	}
	t.Skip(strings.Join(reasons, "; "))
	return nil
}

// complaint is the line of a program's output that names an error, or the last one.
func complaint(output []byte) string {
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	for _, line := range lines {
		if strings.Contains(line, "Error") {
			return line
		}
	}
	return lines[len(lines)-1]
}

// The key functions of all languages give the provider's keys, and refuse values that do not fit.
func TestPublishingKeys(t *testing.T) {
	t.Parallel()
	var lines, want []string
	for _, c := range keyCases() {
		key := c.key()
		if own := c.providerKey(); own != key {
			t.Fatalf("of %s, the provider makes %q, and math/big %q", c.line(), own, key)
		}
		lines, want = append(lines, c.line()), append(want, key)
	}
	if refused := strings.Count(strings.Join(want, "\n"), "error"); refused < 60 || len(want)-refused < 350 {
		t.Fatalf("%d of %d keys are refused", refused, len(want))
	}
	for want, c := range map[string]keyCase{
		"1.0.1.0.billing":         {uniform(2, 4, 1000), 10_000, "billing"},
		"0.0.0.0.3.6.0.0.billing": {uniform(10, 8, 1000), 3_600_000, "billing"},
		"0.1.30.0.billing":        {clock, 5_400_000, "billing"},
	} {
		if key := c.key(); key != want {
			t.Fatalf("%s has the key %q, not %q", c.line(), key, want)
		}
	}

	for name, l := range languages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			directory, command := l.start(t, name, l.keys)
			got := strings.Split(strings.TrimSuffix(docstest.RunIn(t, directory, nil, strings.Join(lines, "\n")+"\n",
				command...), "\n"), "\n")
			if len(got) != len(want) {
				t.Fatalf("%d lines of output, want %d: %q", len(got), len(want), got)
			}
			for i, key := range got {
				if key != want[i] {
					t.Errorf("%q gives %q, want %q", lines[i], key, want[i])
				}
			}
		})
	}
}

// published is what publishers know of delays, in milliseconds.
type published struct {
	units   []int64
	longest int64
}

// clock are days to seconds, up to 30 days.
var clock = published{[]int64{86_400_000, 3_600_000, 60_000, 1000}, 2_678_399_000}

// uniform is the form with levels of a base.
func uniform(base, levels, resolution int64) published {
	unit := resolution
	var units []int64
	for range levels {
		units = append(units, unit)
		unit *= base
	}
	slices.Reverse(units)
	return published{units, unit - resolution}
}

// keyCase is what a key function is given. The delay is in milliseconds.
type keyCase struct {
	published
	delay   int64
	address string
}

func keyCases() []keyCase {
	var cases []keyCase
	for _, base := range []int64{2, 3, 9, 10} {
		for delay := int64(-2); delay < 70; delay++ {
			cases = append(cases, keyCase{uniform(base, 4, 1000), delay * 250, "billing"})
		}
	}
	for _, p := range []published{
		uniform(2, 1, 1), uniform(2, 5, 100), uniform(2, 17, 1000), uniform(2, 28, 1000), uniform(2, 29, 1000),
		uniform(2, 33, 7), uniform(2, 39, 1), uniform(3, 1, 1000), uniform(3, 12, 1000), uniform(3, 24, 1),
		uniform(7, 10, 30), uniform(10, 1, 1), uniform(10, 8, 1000), uniform(10, 11, 1), uniform(5, 5, 250),
		uniform(8, 6, 100), uniform(9, 1, 1), uniform(9, 4, 1000), uniform(9, 7, 7), uniform(9, 9, 1),
		clock, {clock.units, 10_799_000}, {clock.units, 2000}, {[]int64{60_000, 10_000, 1000}, 959_000},
		{[]int64{1000}, 900_000}, {[]int64{1000, 250, 1}, 3999}, {[]int64{5_400_000, 900_000, 100}, 315_365_399_900},
	} {
		last := p.units[len(p.units)-1]
		delays := []int64{-1, 0, 1, last + 1, p.longest / 3, p.longest - 1, p.longest, p.longest + 1, 2 * p.longest}
		for _, unit := range p.units[max(0, len(p.units)-8):] {
			delays = append(delays, unit-1, unit)
		}
		for _, delay := range delays {
			cases = append(cases, keyCase{p, delay, "orders.eu"})
		}
	}
	return append(cases,
		keyCase{uniform(2, 4, 1000), 10_000, ""},
		keyCase{clock, 10_000, ""},
		keyCase{uniform(2, 28, 1000), 10_000, strings.Repeat("d", 199)},
		keyCase{uniform(2, 28, 1000), 10_000, strings.Repeat("d", 200)},
		keyCase{uniform(10, 8, 1000), 10_000, strings.Repeat("d", 239)},
		keyCase{uniform(10, 8, 1000), 10_000, strings.Repeat("d", 240)},
		keyCase{clock, 600_000, strings.Repeat("d", 246)},
		keyCase{clock, 600_000, strings.Repeat("d", 247)},
		keyCase{clock, 630_000, strings.Repeat("d", 245)},
		keyCase{clock, 630_000, strings.Repeat("d", 246)},
		keyCase{uniform(2, 4, 1000), 10_000, strings.Repeat("é", 123)},
		keyCase{uniform(2, 4, 1000), 10_000, strings.Repeat("é", 124)},
	)
}

// key is the routing key, or "error". It divides from the right: steps of the last unit, by how many of each unit the
// one before has.
func (c keyCase) key() string {
	if c.delay < 0 || c.delay > c.longest || c.address == "" {
		return "error"
	}
	last := len(c.units) - 1
	steps := new(big.Int).Add(big.NewInt(c.delay), big.NewInt(c.units[last]-1))
	steps.Div(steps, big.NewInt(c.units[last]))
	words := []string{c.address}
	for i := last; i > 0; i-- {
		number := new(big.Int)
		steps.DivMod(steps, big.NewInt(c.units[i-1]/c.units[i]), number)
		words = append(words, number.String())
	}
	words = append(words, steps.String())
	slices.Reverse(words)
	key := strings.Join(words, ".")
	if len(key) > delay.MaxKeyBytes {
		return "error"
	}
	return key
}

// providerKey is the routing key by the provider's own function, or "error".
func (c keyCase) providerKey() string {
	scale, err := delay.PublisherScale(c.units, c.longest)
	if err != nil {
		return err.Error()
	}
	key, err := scale.RoutingKey(time.Duration(c.delay)*time.Millisecond, c.address)
	if err != nil {
		return "error"
	}
	return key
}

// line is what a driver reads.
func (c keyCase) line() string {
	return fmt.Sprintf("%d\t%s\t%d\t%s", c.delay, strings.Trim(strings.ReplaceAll(fmt.Sprint(c.units), " ", ","), "[]"),
		c.longest, c.address)
}

// The snippets read the cascade from PUBLISHER, and say in a line what they expect if it is not there.
func TestPublishingCascade(t *testing.T) {
	t.Parallel()
	good := map[string]string{
		harness.Publisher: "tasks.delay-03 8000,4000,2000,1000 15000",
		`{"entry_exchange":"tasks.delay-01","max_delay_ms":99000,"units_ms":` +
			`[10000,1000]}`: "tasks.delay-01 10000,1000 99000",
		`{"entry_exchange":"orders.d.h.m.s","units_ms":[86400000,3600000,60000,1000],` +
			`"max_delay_ms":2678399000}`: "orders.d.h.m.s 86400000,3600000,60000,1000 2678399000",
		"\n" + `{ "max_delay_ms": 777600000000, "units_ms": [ 86400000000 ],` + "\n" +
			`"more": [{}], "entry_exchange": "a\u003cb" }` + "\n": "a<b 86400000000 777600000000",
	}

	for name, l := range languages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if l.cascade.file == "" {
				t.Skip("the JSON library is not where these tests run; TestPublishingKeys parses the snippet")
			}
			directory, command := l.start(t, name, l.cascade)
			for json, want := range good {
				if got := docstest.RunIn(t, directory, []string{"PUBLISHER=" + json}, "",
					command...); got != want+"\n" {
					t.Errorf("%s is read as %q, want %q", json, got, want)
				}
			}
			for _, assignment := range badPublishers() {
				var environment []string
				if assignment != "" {
					environment = []string{assignment}
				}
				expectsPublisher(t, directory, environment, command...)
			}
		})
	}
}

// badPublishers are assignments that a snippet refuses; the empty one assigns nothing.
func badPublishers() []string {
	bad := []string{
		"", "PUBLISHER=tasks.delay-03", "PUBLISHER=null", "PUBLISHER=" + harness.Publisher + "}",
		"PUBLISHER=[" + harness.Publisher + "]",
	}
	for member, wrong := range map[string][]string{
		`"entry_exchange":"tasks.delay-03"`: {"7", `""`},
		`"units_ms":[8000,4000,2000,1000]`: {"null", "1000", "[]", "[1000,0]", "[1000.5]", `["1000"]`, "[true]",
			"[null]", `{"a":1000}`, `"1000"`},
		`"max_delay_ms":15000`: {`"15000"`, "15000.5", "true", "-4", "null", "0"},
	} {
		name, _, _ := strings.Cut(member, ":")
		bad = append(bad, "PUBLISHER="+strings.Replace(harness.Publisher, member, `"other":1`, 1))
		for _, value := range wrong {
			bad = append(bad, "PUBLISHER="+strings.Replace(harness.Publisher, member, name+":"+value, 1))
		}
	}
	return bad
}

// expectsPublisher runs a command that has to end with a line about PUBLISHER.
func expectsPublisher(t *testing.T, directory string, environment []string, command ...string) {
	t.Helper()
	const line = "set the environment variable PUBLISHER to JSON with a text entry_exchange, " +
		"a list units_ms of positive integers, and a positive integer max_delay_ms"
	out, log, err := docstest.TryIn(t, directory, environment, "", command...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 || out != "" || log != line+"\n" {
		t.Errorf("%q with %q: %v\n%s%s", command, environment, err, out, log)
	}
}

// The snippets, as they stand in the examples, send a message through a cascade of each form. They find it delivered on
// time. They send it again without the broker's own headers. They refuse a delay that is out of range, and notice a
// message that no binding takes.
func TestAccPublishing(t *testing.T) {
	t.Parallel()
	for name, l := range languages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := l.program(t, name)
			v := harness.NewVhost(t)
			harness.NewProtocol(t, v.Broker, nil).MustApply(harness.Attributes{"vhost": v.Name, "name": "tasks",
				"levels": 4})
			v.DeclareQueue("again", nil)
			v.Bind("tasks.delivery", "*.*.*.*.again", "queue", "again")
			billing := v.Collect("tasks.delivery", "*.*.*.*.billing.eu")
			p.sends(v, billing)
			for _, c := range []delay.Config{{Name: "decimal", Base: 10, Levels: 2}, {Name: "units",
				Units: []time.Duration{time.Minute, 10 * time.Second, time.Second}, MaxDelay: time.Minute}} {
				c.QueueType, c.CreateDeliveryExchange = delay.Classic, true
				publisher := declareConfig(v, c)
				p.sends(v, v.Collect(c.Name+".delivery", "#.billing.eu"), publisher)
			}
			p.retries(v)
			p.dropsHarm(v)

			p.refuses(v, "is not within 0 to", "send", p.delay(15_001), "billing", "too late")
			expectsPublisher(t, p.directory, append(v.Environ(), "PUBLISHER="+harness.Publisher[1:]),
				append(p.command, "send", p.delay(1000), "billing", "to no cascade")...)
			p.refuses(v, "no message in", "retry", "again", p.delay(1000))
			nothing := harness.NewVhost(t)
			nothing.DeclareExchange("tasks.delay-03", "topic")
			p.refuses(nothing, unroutable[name], "send", p.delay(1000), "billing", "nowhere")
			if got := len(billing.Arrivals()); got != 1 {
				t.Errorf("%d messages arrived, want 1", got)
			}
		})
	}
}

// program is the snippet that publishes, ready to run.
type program struct {
	language, directory string
	command             []string
}

func (l language) program(t *testing.T, name string) program {
	t.Helper()
	p := program{language: name, directory: filepath.Join(docstest.Examples, "publishing", name)}
	switch {
	case name == "go":
		p.command = []string{filepath.Join(t.TempDir(), "publish")}
		docstest.RunIn(t, p.directory, nil, "", "go", "build", "-o", p.command[0], ".")
	case l.publish == "":
		t.Skip("the client library is on no machine yet that runs these tests; TestPublishingKeys runs the " +
			"key function")
	default:
		p.command = append(l.interpreter(t, l.library), l.publish)
	}
	return p
}

// delay is an argument of the program.
func (p program) delay(millis int) string {
	if p.language == "go" {
		return (time.Duration(millis) * time.Millisecond).String()
	}
	return strconv.Itoa(millis)
}

// declareConfig declares a cascade, without Terraform, and returns what programs are handed about it.
func declareConfig(v *harness.Vhost, c delay.Config) (environment string) {
	v.T.Helper()
	cascade := delaytest.Resolve(v.T, c)
	all := cascade.Expand()
	v.Do(plan.Repair(all, topology.New()).Steps()...)
	scale := cascade.Scale()
	units := make([]int64, len(scale.Units))
	for i, unit := range scale.Units {
		units[i] = unit.Milliseconds()
	}
	publisher, err := json.Marshal(map[string]any{"entry_exchange": all.Entry, "units_ms": units,
		"max_delay_ms": scale.Longest.Milliseconds()})
	if err != nil {
		v.T.Fatal(err)
	}
	return "PUBLISHER=" + string(publisher)
}

// sends sends with a delay of 1.1 s, which is rounded up to 2 s.
func (p program) sends(v *harness.Vhost, billing *brokertest.Collector, environment ...string) {
	v.T.Helper()
	sent := time.Now()
	docstest.RunIn(v.T, p.directory, append(v.Environ(), environment...), "", append(p.command, "send", p.delay(1100),
		"billing.eu", "hello")...)
	first := v.Arrived(billing, 1)[0]
	if wait := first.At.Sub(sent); wait < harness.Least(2*time.Second) || string(first.Body) != "hello" ||
		first.DeliveryMode != amqp.Persistent {
		v.T.Errorf("after %s arrived %q with delivery mode %d", wait, first.Body, first.DeliveryMode)
	}
}

// retries sends through the same two queues twice. With its old headers, RabbitMQ 3 would take the message for one that
// goes in circles and not let it into the second.
func (p program) retries(v *harness.Vhost) {
	v.T.Helper()
	if err := v.Publisher().Publish(v.T.Context(), "tasks.delay-03", "0.0.1.1.again", amqp.Publishing{
		DeliveryMode: amqp.Persistent, Headers: amqp.Table{"trace": "abc"}, MessageId: "m-1",
		Body: []byte("once more"),
	}); err != nil {
		v.T.Fatal(err)
	}
	v.Eventually("the message is delivered", func() bool { return v.Depth("again") == 1 })
	sent := time.Now()
	docstest.RunIn(v.T, p.directory, v.Environ(), "", append(p.command, "retry", "again", p.delay(3000))...)
	again := v.Arrived(v.Consume("again"), 1)[0]
	deaths, _ := again.Headers["x-death"].([]any)
	if wait := again.At.Sub(sent); wait < harness.Least(3*time.Second) || string(again.Body) != "once more" ||
		again.MessageId != "m-1" || again.Headers["trace"] != "abc" ||
		len(deaths) != 2 || strings.Count(fmt.Sprint(deaths), "count:1 ") != 2 {
		v.T.Errorf("after %s arrived %q with ID %q and headers %v", wait, again.Body, again.MessageId, again.Headers)
	}
}

// dropsHarm sends a message again that has all that is harmful in a cascade, and some that is not.
func (p program) dropsHarm(v *harness.Vhost) {
	v.T.Helper()
	v.DeclareQueue("harmful", nil)
	v.Bind("tasks.delivery", "*.*.*.*.harmful", "queue", "harmful")
	if err := v.Publisher().Publish(v.T.Context(), "tasks.delivery", "0.0.0.1.harmful", amqp.Publishing{
		Headers: amqp.Table{"CC": []any{"0.0.0.0.nobody"}, "x-first-death-queue": "q", "trace": "abc",
			"x-opt-delivery-time": time.Now().Add(time.Hour).UnixMilli()},
		Priority: 9, Expiration: "600000", MessageId: "m-2",
	}); err != nil {
		v.T.Fatal(err)
	}
	v.Eventually("the message is there", func() bool { return v.Depth("harmful") == 1 })
	docstest.RunIn(v.T, p.directory, v.Environ(), "", append(p.command, "retry", "harmful", p.delay(1000))...)
	again := v.Arrived(v.Consume("harmful"), 1)[0]
	_, copied := again.Headers["CC"]
	_, until := again.Headers["x-opt-delivery-time"]
	if copied || until || again.Priority != 0 || again.Expiration != "" ||
		again.Headers["x-first-death-queue"] == "q" || again.Headers["trace"] != "abc" || again.MessageId != "m-2" {
		v.T.Errorf("the message has priority %d, expiration %q and headers %v", again.Priority, again.Expiration,
			again.Headers)
	}
}

// refuses runs the program, which has to fail for a reason.
func (p program) refuses(v *harness.Vhost, reason string, arguments ...string) {
	v.T.Helper()
	out, log, err := docstest.TryIn(v.T, p.directory, v.Environ(), "", append(p.command, arguments...)...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !strings.Contains(out+log, reason) {
		v.T.Errorf("%q: %v, want %q\n%s%s", arguments, err, reason, out, log)
	}
}

// unroutable is what a snippet says of a returned message.
var unroutable = map[string]string{
	"go": "no binding takes", "python": "UnroutableError", "ruby": "no binding takes", "php": "no binding takes",
	"javascript": "no binding takes",
}
