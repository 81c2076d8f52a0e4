package acceptance

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/sampling"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

const killedConfiguration = `
terraform {
  required_providers {
    rabbitmqdelay = {
      source = "rabbitmqdelay/rabbitmqdelay"
    }
  }
}

variable "endpoint" {}
variable "username" {}
variable "password" { sensitive = true }
variable "amqp_uri" { sensitive = true }
variable "vhost" {}
variable "queue_type" {}
variable "base" {}
variable "levels" {}
variable "lookahead" { default = null }
variable "strict_keys" { default = true }
variable "adopt" { default = false }

provider "rabbitmqdelay" {
  endpoint = var.endpoint
  username = var.username
  password = var.password
  amqp_uri = var.amqp_uri
}

resource "rabbitmqdelay_cascade" "t" {
  name        = "t"
  vhost       = var.vhost
  base        = var.base
  levels      = var.levels
  queue_type  = var.queue_type
  lookahead   = var.lookahead
  strict_keys = var.strict_keys
  adopt       = var.adopt
}
`

// TestKilledProcess kills the provider's process in the middle of what Terraform has it do, with the signal
// that nothing can catch. Terraform then runs again: after a create it is told what exists and to adopt it;
// after that, or otherwise at once, one apply converges.
func TestKilledProcess(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	t.Parallel()
	killed := 0
	for _, o := range []harness.Interrupted{{TypeName: harness.CascadeType, QueueType: delay.Quorum, Base: 2,
		Verb: "create"},
		{TypeName: harness.CascadeType, QueueType: delay.Classic, Base: 10,
			Verb: "update"}, {TypeName: harness.CascadeType, QueueType: delay.Quorum, Base: 2, Verb: "destroy"}} {
		var writes []harness.Point
		for _, at := range o.Points(harness.NewVhost(t)) {
			if at.Method != http.MethodGet {
				writes = append(writes, at)
			}
		}
		places := []int{0, len(writes) / 3, 2 * len(writes) / 3, len(writes) - 1}
		killed += len(places)
		for _, i := range sampling.Of(t, "kills of a process in a "+o.Verb, places) {
			t.Run(fmt.Sprintf("%s %s, %s", o.Verb, o.QueueType, writes[i]), func(t *testing.T) {
				t.Parallel()
				killProcess(o, t, writes[i])
			})
		}
	}
	if !narrowed() {
		figure(t, "killed_processes", killed)
	}
}

func killProcess(o harness.Interrupted, t *testing.T, at harness.Point) {
	v := harness.NewVhost(t)
	proxy := harness.NewFaultProxy(t, v.Broker)
	b := proxy.Front()
	tf := harness.NewCommandLine(t, "", killedConfiguration, map[string]string{
		"endpoint": b.Endpoint, "username": b.Username, "password": b.Password, "amqp_uri": b.AMQPURI,
		"vhost": v.Name, "queue_type": string(o.QueueType), "base": strconv.Itoa(o.Base),
		"levels": strconv.Itoa(o.Levels()),
	})
	config := delay.Config{Name: "t", Vhost: v.Name, Base: o.Base, Levels: o.Levels(), QueueType: o.QueueType,
		CreateDeliveryExchange: true, StrictKeys: true, ParkUnroutable: true}
	arguments := []string{"apply", "-auto-approve"}
	must := func(arguments ...string) {
		t.Helper()
		if output, err := tf.Run(arguments...); err != nil {
			t.Fatalf("%s: %v\n%s", arguments, err, output)
		}
	}
	want := harness.Expand(t, config)
	switch o.Verb {
	case "update":
		must(arguments...)
		o.Damage(v, want)
		config.Lookahead, config.StrictKeys = 1, false // as in prepareCascade, whose requests are those to be killed at
		want = harness.Expand(t, config)
		arguments = append(arguments, "-var=lookahead=1", "-var=strict_keys=false")
	case "destroy":
		must(arguments...)
		want, arguments = topology.New(), []string{"destroy", "-auto-approve"}
	}
	at.Path = strings.ReplaceAll(at.Path, "{vhost}", v.Name)
	proxy.Mutex.Lock()
	proxy.Seen, proxy.Written = nil, false
	proxy.At, proxy.Failure, proxy.Kill = at, harness.Failure{Fault: harness.Kills,
		Lasts: harness.Once}, func() { kill(t, tf.Provider) }
	proxy.Mutex.Unlock()
	if output, err := tf.Run(arguments...); err == nil || !proxy.HasStruck() {
		t.Fatalf("%s is not killed: %v\n%s", arguments, err, output)
	}
	if left := objectsAtRest(v); o.Verb == "create" && len(left.Exchanges) > 0 {
		output, err := tf.Run(arguments...)
		if err == nil || !strings.Contains(harness.OneLine(output), "adopt = true") {
			t.Errorf("the next apply does not say what to do: %v\n%s", err, output)
		}
		v.MustHold(left)
		arguments = append(arguments, "-var=adopt=true")
	}
	must(arguments...)
	v.MustHold(want)
	if o.Verb != "destroy" {
		must(append([]string{"plan", "-detailed-exitcode"}, arguments[2:]...)...)
	}
}

// objectsAtRest are the objects when none come any more: the broker may still be doing what a process had sent that was
// killed.
func objectsAtRest(v *harness.Vhost) topology.Topology {
	v.T.Helper()
	const quiet = 3 * time.Second
	objects := v.Objects()
	for since := time.Now(); time.Since(since) < quiet; time.Sleep(100 * time.Millisecond) {
		if now := v.Objects(); !reflect.DeepEqual(now, objects) {
			objects, since = now, time.Now()
		}
	}
	return objects
}

// kill ends the processes that were started with the name.
func kill(t testing.TB, name string) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Error(err)
	}
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || !bytes.HasPrefix(line, []byte(name+"\x00")) && string(line) != name {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone
		}
	}
}
