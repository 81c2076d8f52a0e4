package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/cascade"
)

// language is how the snippets of a language below examples/publishing are run.
type language struct {
	// probes are commands one of which has to succeed where the key function can be run; the first that does is
	// the interpreter, with its arguments before the program.
	probes [][]string
	// driver prints a line for each line of standard input: the key for delay and resolution in milliseconds, levels
	// and destination, separated by tabs, or "error". It has a name, and is put beside the key function.
	driver, program string
	// build makes a program of the driver and the key function, where the interpreter takes no source.
	build func(interpreter []string) [][]string
	run   func(interpreter []string) []string
	// parse says whether the snippet is well-formed, where it cannot be run.
	parse []string
	// library is a program that succeeds where the client library is; publish is the snippet. Without them the
	// snippet is not run.
	library, publish string
}

var languages = map[string]language{
	"go": {
		probes: [][]string{{"go", "version"}},
		driver: "driver.go", program: `package main

import ("bufio"; "fmt"; "os"; "strconv"; "strings"; "time")

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		f := strings.Split(lines.Text(), "\t")
		delay, _ := strconv.ParseInt(f[0], 10, 64); levels, _ := strconv.Atoi(f[1]); resolution, _ := strconv.ParseInt(f[2], 10, 64)
		key, err := RoutingKey(time.Duration(delay)*time.Millisecond, levels, time.Duration(resolution)*time.Millisecond, f[3])
		if err != nil { key = "error" }
		fmt.Println(key)
	}
}`,
		run: func([]string) []string { return []string{"go", "run", "routingkey.go", "driver.go"} },
	},
	"python": {
		probes: [][]string{{"/usr/bin/python3", "--version"}, {"python3", "--version"}},
		driver: "driver.py", program: `import sys
from routing_key import routing_key
for line in sys.stdin:
    delay, levels, resolution, destination = line.rstrip("\n").split("\t")
    try:
        print(routing_key(int(delay), int(levels), int(resolution), destination))
    except ValueError:
        print("error")`,
		run:     func(python []string) []string { return append(python, "driver.py") },
		library: `import pika`, publish: "publish.py",
	},
	"javascript": {
		probes: [][]string{{"node", "--version"}},
		driver: "driver.js", program: `const { routingKey } = require('./routing-key');
for (const line of require('fs').readFileSync(0, 'utf8').trimEnd().split('\n')) {
  const [delay, levels, resolution, destination] = line.split('\t');
  try {
    console.log(routingKey(Number(delay), Number(levels), Number(resolution), destination));
  } catch (error) {
    console.log('error');
  }
}`,
		run:     func(node []string) []string { return append(node, "driver.js") },
		parse:   []string{"node", "--check", "publish.js"},
		library: `require('amqplib')`, publish: "publish.js",
	},
	"php": {
		probes: [][]string{{"php", "--version"}},
		driver: "driver.php", program: `<?php
declare(strict_types=1);
require 'routing_key.php';
while (($line = fgets(STDIN)) !== false) {
    [$delay, $levels, $resolution, $destination] = explode("\t", rtrim($line, "\n"));
    try {
        echo routingKey((int) $delay, (int) $levels, (int) $resolution, $destination), "\n";
    } catch (RangeException $e) {
        echo "error\n";
    }
}`,
		run:     func(php []string) []string { return append(php, "driver.php") },
		library: `<?php if (!stream_resolve_include_path('PhpAmqpLib/autoload.php') && !is_file('vendor/autoload.php')) { exit(1); }`, publish: "publish.php",
	},
	"ruby": {
		probes: [][]string{{"ruby", "--version"}},
		driver: "driver.rb", program: `require_relative 'routing_key'
STDIN.each_line(chomp: true) do |line|
  delay, levels, resolution, destination = line.split("\t", -1)
  puts routing_key(Integer(delay), Integer(levels), Integer(resolution), destination)
rescue ArgumentError
  puts 'error'
end`,
		run:     func(ruby []string) []string { return append(ruby, "driver.rb") },
		library: `require 'bunny'`, publish: "publish.rb",
	},
	"java": {
		probes: [][]string{{"javac", "-version"}},
		driver: "Driver.java", program: `import java.io.*;
import java.nio.charset.StandardCharsets;

class Driver {
    public static void main(String[] args) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        for (String line; (line = in.readLine()) != null; ) {
            String[] f = line.split("\t", -1);
            try {
                out.println(RoutingKey.of(Long.parseLong(f[0]), Integer.parseInt(f[1]), Long.parseLong(f[2]), f[3]));
            } catch (IllegalArgumentException e) {
                out.println("error");
            }
        }
    }
}`,
		build: func([]string) [][]string {
			return [][]string{{"javac", "-encoding", "UTF-8", "RoutingKey.java", "Driver.java"}}
		},
		run: func([]string) []string { return []string{"java", "-cp", ".", "Driver"} },
	},
	"csharp": {
		probes: [][]string{{"mcs", "--version"}},
		driver: "Driver.cs", program: `using System;

static class Driver
{
    static void Main()
    {
        Console.InputEncoding = Console.OutputEncoding = new System.Text.UTF8Encoding(false);
        for (string line; (line = Console.ReadLine()) != null;)
        {
            string[] f = line.Split('\t');
            try
            {
                Console.WriteLine(RoutingKey.Of(TimeSpan.FromMilliseconds(long.Parse(f[0])), int.Parse(f[1]), TimeSpan.FromMilliseconds(long.Parse(f[2])), f[3]));
            }
            catch (ArgumentException)
            {
                Console.WriteLine("error");
            }
        }
    }
}`,
		build: func([]string) [][]string { return [][]string{{"mcs", "-out:driver.exe", "RoutingKey.cs", "Driver.cs"}} },
		run:   func([]string) []string { return []string{"mono", "driver.exe"} },
		parse: []string{"mcs", "--parse", "DelayedPublisher.cs"},
	},
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
			file := filepath.Join(t.TempDir(), "library"+filepath.Ext(l.driver))
			writeExample(t, filepath.Dir(file), filepath.Base(file), library)
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

// The key functions of all languages give what the provider's own gives, and refuse what it refuses.
func TestPublishingKeys(t *testing.T) {
	t.Parallel()
	var lines, want []string
	add := func(delay int64, levels int, resolution int64, destination string) {
		key, err := cascade.RoutingKey(time.Duration(delay)*time.Millisecond, levels, time.Duration(resolution)*time.Millisecond, destination)
		if err != nil {
			key = "error"
		}
		lines = append(lines, fmt.Sprintf("%d\t%d\t%d\t%s", delay, levels, resolution, destination))
		want = append(want, key)
	}
	for delay := int64(-2); delay < 70; delay++ {
		add(delay*250, 4, 1000, "billing")
	}
	for _, shape := range []struct {
		levels     int
		resolution int64
	}{{1, 1}, {5, 100}, {17, 1000}, {28, 1000}, {29, 1000}, {33, 7}, {39, 1}} {
		longest := int64(1<<shape.levels-1) * shape.resolution
		for _, delay := range []int64{-1, 0, 1, shape.resolution, shape.resolution + 1, longest / 3, longest - 1, longest, longest + 1, 2 * longest} {
			add(delay, shape.levels, shape.resolution, "orders.eu")
		}
	}
	add(10_000, 4, 1000, "")
	add(10_000, 28, 1000, strings.Repeat("d", 199))
	add(10_000, 28, 1000, strings.Repeat("d", 200))
	add(10_000, 4, 1000, strings.Repeat("é", 123))
	add(10_000, 4, 1000, strings.Repeat("é", 124))
	if refused := strings.Count(strings.Join(want, "\n"), "error"); refused < 20 || len(want)-refused < 100 {
		t.Fatalf("%d of %d keys are refused", refused, len(want))
	}

	for name, l := range languages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			interpreter := l.interpreter(t, "")
			directory := t.TempDir()
			if err := os.CopyFS(directory, os.DirFS(filepath.Join(examples, "publishing", name))); err != nil {
				t.Fatal(err)
			}
			writeExample(t, directory, l.driver, l.program)
			if l.parse != nil {
				runIn(t, directory, nil, "", l.parse...)
			}
			if l.build != nil {
				for _, command := range l.build(interpreter) {
					runIn(t, directory, nil, "", command...)
				}
			}
			got := strings.Split(strings.TrimSuffix(runIn(t, directory, nil, strings.Join(lines, "\n")+"\n", l.run(interpreter)...), "\n"), "\n")
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

// runIn runs a command that has to succeed and returns its output.
func runIn(t *testing.T, directory string, environment []string, input string, command ...string) string {
	t.Helper()
	out, stderr, err := tryIn(t, directory, environment, input, command...)
	if err != nil {
		t.Fatalf("%q: %v\n%s%s", command, err, out, stderr)
	}
	return out
}

func tryIn(t *testing.T, directory string, environment []string, input string, command ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Dir, c.Env, c.Stdin = directory, append(os.Environ(), environment...), strings.NewReader(input)
	var out, log bytes.Buffer
	c.Stdout, c.Stderr = &out, &log
	err = c.Run()
	return out.String(), log.String(), err
}

// The snippets, as they stand in the guide, send a message and find it delivered on time, send it again without what
// the broker wrote into it, refuse a delay that is out of range, and notice what no binding takes.
func TestAccPublishing(t *testing.T) {
	t.Parallel()
	for name, l := range languages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			directory := filepath.Join(examples, "publishing", name)
			var program []string
			switch {
			case name == "go":
				program = []string{filepath.Join(t.TempDir(), "publish")}
				runIn(t, directory, nil, "", "go", "build", "-o", program[0], ".")
			case l.publish == "":
				t.Skip("the client library is on no machine yet that runs these tests; TestPublishingKeys runs the key function")
			default:
				program = append(l.interpreter(t, l.library), l.publish)
			}
			delay := func(millis int) string {
				if name == "go" {
					return (time.Duration(millis) * time.Millisecond).String()
				}
				return strconv.Itoa(millis)
			}

			v := newVhost(t)
			newProtocol(t, v.broker, nil).mustApply(attributes{"vhost": v.name, "name": "tasks", "levels": 4})
			v.declareQueue("again", nil)
			v.bind("tasks.delivery", "*.*.*.*.again", "queue", "again")

			// 1.1 s is rounded up to 2 s.
			billing := v.collect("tasks.delivery", "*.*.*.*.billing.eu")
			sent := time.Now()
			runIn(t, directory, v.environ(), "", append(program, "send", delay(1100), "billing.eu", "hello")...)
			first := v.arrived(billing, 1)[0]
			if wait := first.At.Sub(sent); wait < 2*time.Second || string(first.Body) != "hello" || first.DeliveryMode != amqp.Persistent {
				t.Errorf("after %s arrived %q with delivery mode %d", wait, first.Body, first.DeliveryMode)
			}

			// Through the same two queues twice: with its old headers, RabbitMQ 3 would take the message for one that
			// goes in circles and not let it into the second.
			if err := v.publisher().Publish(t.Context(), "tasks.delay-03", "0.0.1.1.again", amqp.Publishing{
				DeliveryMode: amqp.Persistent, Headers: amqp.Table{"trace": "abc"}, MessageId: "m-1", Body: []byte("once more"),
			}); err != nil {
				t.Fatal(err)
			}
			v.eventually("the message is delivered", func() bool { return v.depth("again") == 1 })
			sent = time.Now()
			runIn(t, directory, v.environ(), "", append(program, "retry", "again", delay(3000))...)
			again := v.arrived(v.consume("again"), 1)[0]
			deaths, _ := again.Headers["x-death"].([]any)
			if wait := again.At.Sub(sent); wait < 3*time.Second || string(again.Body) != "once more" || again.MessageId != "m-1" || again.Headers["trace"] != "abc" ||
				len(deaths) != 2 || strings.Count(fmt.Sprint(deaths), "count:1 ") != 2 {
				t.Errorf("after %s arrived %q with ID %q and headers %v", wait, again.Body, again.MessageId, again.Headers)
			}

			refused := func(environment []string, reason string, arguments ...string) {
				t.Helper()
				out, log, err := tryIn(t, directory, environment, "", append(program, arguments...)...)
				var exit *exec.ExitError
				if !errors.As(err, &exit) || !strings.Contains(out+log, reason) {
					t.Errorf("%q: %v, want %q\n%s%s", arguments, err, reason, out, log)
				}
			}
			refused(v.environ(), "does not fit 4 levels", "send", delay(15_001), "billing", "too late")
			refused(v.environ(), "no message in", "retry", "again", delay(1000))
			nothing := newVhost(t)
			nothing.declareExchange("tasks.delay-03", "topic")
			refused(nothing.environ(), unroutable[name], "send", delay(1000), "billing", "nowhere")
			if got := len(billing.Arrivals()); got != 1 {
				t.Errorf("%d messages arrived, want 1", got)
			}
		})
	}
}

// unroutable is what a snippet says of a returned message.
var unroutable = map[string]string{
	"go": "no binding takes", "python": "UnroutableError", "ruby": "no binding takes", "php": "no binding takes", "javascript": "no binding takes",
}

// environ leads a program to the vhost.
func (v *vhost) environ() []string {
	v.Helper()
	uri, err := url.Parse(v.broker.AMQPURI)
	if err != nil {
		v.Fatal(err)
	}
	uri.Path, uri.RawPath = "/"+v.name, "/"+url.PathEscape(v.name)
	return []string{"RABBITMQ_AMQP_URI=" + uri.String()}
}
