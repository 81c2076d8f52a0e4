package acceptance

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
)

// Symfony Messenger's publisher sends through a cascade as it is, as the guide to choosing says. Debian has it in
// php-symfony-amqp-messenger and php-amqp.
func TestSymfonyMessenger(t *testing.T) {
	t.Parallel()
	const has = `exit(extension_loaded('amqp') && stream_resolve_include_path(` +
		`'Symfony/Component/Messenger/Bridge/Amqp/autoload.php') ? 0 : 1);`
	if out, err := exec.CommandContext(t.Context(), "php", "-r", has).CombinedOutput(); err != nil {
		t.Skipf("php has no Symfony Messenger with AMQP: %v %s", err, out)
	}
	v := harness.NewVhost(t)
	harness.NewProtocol(t, v.Broker, nil).MustApply(harness.Attributes{"vhost": v.Name, "name": "tasks", "levels": 4})
	arrivals := v.Collect("tasks.delivery", harness.DestinationKey(4, "billing"))
	uri, _ := strings.CutPrefix(v.Environ()[0], "RABBITMQ_AMQP_URI=")
	sent := time.Now()
	docstest.RunIn(t, "testdata", nil, "", "php", "symfony.php", uri, "tasks.delay-03", "0.0.1.0.billing", "invoice 17")
	arrival := v.Arrived(arrivals, 1)[0]
	if wait := arrival.At.Sub(sent); wait < harness.Least(2*time.Second) ||
		!strings.Contains(string(arrival.Body), "invoice 17") {
		t.Errorf("after %s arrived %q", wait, arrival.Body)
	}
}
