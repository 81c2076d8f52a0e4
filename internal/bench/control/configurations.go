package control

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/bench/dataplane"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
)

// alone is Terraform without any provider that is not built in.
func alone() *subject {
	return &subject{name: "terraform alone", parameter: "levels", configuration: `resource "terraform_data" ` +
		`"nothing" {}`}
}

// cascades is a number of cascades, with everything that a cascade has by default beside the attributes.
func cascades(name, attributes string, n int) *subject {
	return &subject{name: name, configuration: fmt.Sprintf(`
variable "vhost" {}
terraform {
  required_providers {
    rabbitmqdelay = { source = "rabbitmqdelay/rabbitmqdelay" }
  }
}
resource "rabbitmqdelay_cascade" "tasks" {
  count = %d
  vhost = var.vhost
  name  = "tasks-${count.index}"
  %s
}
`, n, attributes)}
}

// ofLevels is a number of cascades of base 2.
func ofLevels(name string, levels, n int) *subject {
	s := cascades(name, attributes(dataplane.Units{Base: 2, Levels: levels}), n)
	s.parameter, s.x = "levels", float64(levels)
	if n == 1 {
		s.address = "rabbitmqdelay_cascade.tasks[0]"
		s.importID = func(vhost string) string { return fmt.Sprintf("%s/tasks-0.delay-%02d", vhost, levels-1) }
	}
	return s
}

// attributes are those of a cascade with these units.
func attributes(u dataplane.Units) string {
	if len(u.Units) == 0 {
		return fmt.Sprintf("base   = %d\n  levels = %d", u.Base, u.Levels)
	}
	units := make([]string, len(u.Units))
	for i, unit := range u.Units {
		units[i] = strconv.Quote(delay.DurationText(unit))
	}
	return fmt.Sprintf("units     = [%s]\n  max_delay = %q", strings.Join(units, ", "), delay.DurationText(u.Longest))
}

// forced is one cascade that is destroyed without a look at what waits, as single resources are.
func forced(levels int) *subject {
	s := ofLevels(fmt.Sprintf("%d levels, force_destroy", levels), levels, 1)
	s.configuration = strings.Replace(s.configuration, "  levels = ", "  force_destroy = true\n  levels = ", 1)
	s.address = ""
	return s
}

// plain is the classic chain as single resources of the provider cyrilgdn/rabbitmq; without levels, one exchange.
func plain(name string, levels int) *subject {
	s := &subject{name: name, parameter: "levels", x: float64(levels)}
	s.configuration = fmt.Sprintf(`
variable "vhost" {}
terraform {
  required_providers {
    rabbitmq = { source = "cyrilgdn/rabbitmq" }
  }
}
locals {
  levels = %d
  stars  = { for k in range(local.levels) : k => join("", [for _ in range(local.levels - 1 - k) : "*."]) }
}
resource "rabbitmq_exchange" "delivery" {
  name  = "tasks.delivery"
  vhost = var.vhost
  settings {
    type    = "topic"
    durable = true
  }
}
resource "rabbitmq_exchange" "level" {
  count = local.levels
  name  = format("tasks.delay-%%02d", count.index)
  vhost = var.vhost
  settings {
    type    = "topic"
    durable = true
  }
}
resource "rabbitmq_queue" "level" {
  count = local.levels
  name  = format("tasks.delay-%%02d", count.index)
  vhost = var.vhost
  settings {
    durable = true
    arguments_json = jsonencode({
      "x-queue-type"           = "quorum"
      "x-message-ttl"          = 1000 * pow(2, count.index)
      "x-dead-letter-exchange" = (count.index == 0
        ? rabbitmq_exchange.delivery.name
        : format("tasks.delay-%%02d", count.index - 1))
      "x-dead-letter-strategy" = "at-least-once"
      "x-overflow"             = "reject-publish"
    })
  }
}
resource "rabbitmq_binding" "wait" {
  count            = local.levels
  source           = rabbitmq_exchange.level[count.index].name
  vhost            = var.vhost
  destination      = rabbitmq_queue.level[count.index].name
  destination_type = "queue"
  routing_key      = "${local.stars[count.index]}1.#"
}
resource "rabbitmq_binding" "pass" {
  count            = local.levels
  source           = rabbitmq_exchange.level[count.index].name
  vhost            = var.vhost
  destination      = (count.index == 0
        ? rabbitmq_exchange.delivery.name
        : format("tasks.delay-%%02d", count.index - 1))
  destination_type = "exchange"
  routing_key      = "${local.stars[count.index]}0.#"
  depends_on       = [rabbitmq_exchange.level]
}
`, levels)
	if levels == 0 {
		s.address, s.importID = "rabbitmq_exchange.delivery", func(vhost string) string {
			return "tasks.delivery@" +
				vhost
		}
	}
	return s
}
