package provider

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// What terraform plan -generate-config-out writes for an import is a valid configuration, with which there is nothing to do.
func TestAccGeneratedConfiguration(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("runs Terraform: set TF_ACC")
	}
	t.Parallel()
	v := newVhost(t)
	newProtocol(t, v.broker, nil).mustApply(attributes{"vhost": v.name, "name": "tasks", "levels": 5})
	newProtocol(t, v.broker, nil).mustApply(attributes{"vhost": v.name, "preset": "celery"})
	newProtocolOf(t, ladderType, v.broker, nil).mustApply(attributes{"vhost": v.name, "name": "retry", "delays": textSet("5s", "1m")})
	configuration := requiring
	for address, entry := range map[string]string{
		"rabbitmqdelay_cascade.tasks": "tasks.delay-04", "rabbitmqdelay_cascade.celery": "celery_delayed_27", "rabbitmqdelay_ladder.retry": "retry.entry",
	} {
		configuration += fmt.Sprintf("\nimport {\n  to = %s\n  id = %q\n}\n", address, importID(v.name, entry))
	}
	tf := newCommandLine(t, "", configuration, nil)
	tf.environ = append(tf.environ, v.broker.Environ()...)
	tf.needs("1.5.0")
	for _, arguments := range [][]string{{"plan", "-generate-config-out=generated.tf"}, {"plan"}} {
		if out, err := tf.run(arguments...); err != nil || !strings.Contains(out, "3 to import, 0 to add, 0 to change, 0 to destroy") {
			t.Fatalf("%q: %v\n%s", arguments, err, out)
		}
	}
}
