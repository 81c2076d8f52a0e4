# Rules for the cascades of a plan. `deny` is for known values, `warn` for values that the plan does
# not know yet. OPA 1.0 or later, or conftest 0.58 or later.
package main

year_ms := ((365 * 24) * 3600) * 1000

# All cascades that there are after the apply, those of modules among them. A destroyed one has no
# `after`.
cascades contains cascade if {
	some cascade in input.resource_changes
	cascade.mode == "managed"
	cascade.type == "rabbitmqdelay_cascade"
	cascade.change.after != null
}

deny contains message if {
	some cascade in cascades
	cascade.change.after.queue_type == "classic"
	message := sprintf("%s: classic queues are not replicated; use queue_type = \"quorum\"", [cascade.address])
}

deny contains message if {
	some cascade in cascades
	cascade.change.after.force_destroy
	message := sprintf("%s: force_destroy deletes the messages that wait", [cascade.address])
}

deny contains message if {
	some cascade in cascades
	longest := cascade.change.after.publisher.max_delay_ms
	longest >= year_ms
	message := sprintf("%s: the longest delay is %d days; keep it under a year", [
		cascade.address,
		floor(longest / ((24 * 3600) * 1000)),
	])
}

warn contains message if {
	some cascade in cascades
	some attribute in ["queue_type", "force_destroy", "max_delay"]
	cascade.change.after_unknown[attribute] == true
	message := sprintf("%s: %s is not known before the apply", [cascade.address, attribute])
}
