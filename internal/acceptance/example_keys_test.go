package acceptance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
)

// goKeys is the driver of an example in Go, a test that is none. The key has to be assigned.
func goKeys(key string) driver {
	return driver{
		file: "keys_test.go", program: `package main

import ("bufio"; "encoding/json"; "fmt"; "os"; "strconv"; "strings"; "testing"; "time")

func TestMain(*testing.M) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		f := strings.Split(lines.Text(), "\t")
		var c cascade
		text := fmt.Sprintf("{\"entry_exchange\":\"t\",\"units_ms\":[%s],\"max_delay_ms\":%s}", f[1], f[2])
		if err := json.Unmarshal([]byte(text), &c); err != nil { panic(err) }
		ms, _ := strconv.ParseInt(f[0], 10, 64)
		delay, address := time.Duration(ms) * time.Millisecond, f[3]
		` + key + `
		if err != nil { key = "error" }
		fmt.Println(key)
	}
}`,
		build: []string{"go", "test", "-c", "-o", "keys", "."},
		run:   []string{"./keys"},
	}
}

// exampleKeys are the drivers of the examples that compute keys by themselves, beside those of languages. They read the
// same lines.
var exampleKeys = map[string]driver{
	"bridge": goKeys("key, err := c.key(delay.Milliseconds(), address)"),
	"cancel": goKeys("key, err := c.key(delay, address)"),
	moveExample: {
		file: "driver.py", program: `import io, json, sys
functions = open("move.py").read().replace("import pika", "").partition("old, new = ")[0]
for line in sys.stdin:
    delay, units, longest, address = line.rstrip("\n").split("\t")
    to = {"units_ms": json.loads(f"[{units}]"), "max_delay_ms": int(longest)}
    sys.stdin, program = io.StringIO(json.dumps({"units_ms": [], "queues": [], "to": to})), {}
    exec(functions, program)
    try:
        print(program["key_for"](int(delay), address))
    except ValueError:
        print("error")`,
		run: []string{"driver.py"},
	},
	"quickstart": {
		file: "driver.py", program: `import json, os, sys
keys = open("delayed.py").read().replace("import pika", "").partition("uri = ")[0]
for line in sys.stdin:
    delay, units, longest, address = line.rstrip("\n").split("\t")
    os.environ["PUBLISHER"] = json.dumps({"units_ms": json.loads(f"[{units}]"), "max_delay_ms": int(longest)})
    program = {}
    exec(keys, program)
    try:
        print(program["routing_key"](int(delay), address))
    except ValueError:
        print("error")`,
		run: []string{"driver.py"},
	},
	"recurring": {
		file: "driver.py", program: `import datetime, json, sys, types
sys.modules["pika"] = types.SimpleNamespace(BasicProperties=lambda **properties: properties)
import recurring
now = datetime.datetime(2026, 11, 25, tzinfo=datetime.timezone.utc)
recurring.datetime = types.SimpleNamespace(now=lambda zone: now)
channel = types.SimpleNamespace(basic_publish=lambda exchange, key, *_, **__: print(key))
for line in sys.stdin:
    delay, units, longest, address = line.rstrip("\n").split("\t")
    cascade = {"entry_exchange": "t", "units_ms": json.loads(f"[{units}]"), "max_delay_ms": int(longest)}
    due = now + datetime.timedelta(milliseconds=int(delay))
    try:
        recurring.publish(channel, cascade, address, "name", "30s", due, b"")
    except ValueError:
        print("error")`,
		run: []string{"driver.py"},
	},
}

// The keys of these examples are those of all other programs, in every form, and they refuse the delays that these
// refuse.
func TestExampleKeys(t *testing.T) {
	t.Parallel()
	var lines, want []string
	for _, c := range keyCases() {
		if c.delay >= 0 && c.address != "" && len(c.address) < 100 {
			lines, want = append(lines, c.line()), append(want, c.key())
		}
	}
	for name, d := range exampleKeys {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			directory, command := startExample(t, name, d)
			keys := strings.Split(strings.TrimSuffix(docstest.RunIn(t, directory, nil, strings.Join(lines, "\n")+"\n",
				command...), "\n"), "\n")
			if len(keys) != len(want) {
				t.Fatalf("%d keys of %d delays", len(keys), len(want))
			}
			for i, key := range keys {
				if key != want[i] {
					t.Errorf("%q gives %q, want %q", lines[i], key, want[i])
				}
			}
		})
	}
}

// startExample puts the driver beside the files of the example and returns the directory and the command that runs it.
func startExample(t *testing.T, name string, d driver) (directory string, command []string) {
	t.Helper()
	directory = t.TempDir()
	if err := os.CopyFS(directory, os.DirFS(filepath.Join(docstest.Examples, name))); err != nil {
		t.Fatal(err)
	}
	docstest.WriteExample(t, directory, d.file, d.program)
	if d.build == nil {
		return directory, append(languages["python"].interpreter(t, ""), d.run...)
	}
	docstest.RunIn(t, directory, nil, "", d.build...)
	return directory, d.run
}
