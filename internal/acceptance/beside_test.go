package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/config"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// besideExample declares vhost, user and queue with the provider cyrilgdn/rabbitmq.
const besideExample = "beside-another-provider"

// TestAccBesideAnotherProvider applies the example, sends a message through it as its user, replaces the queue, sends
// another one, and destroys all. Its second provider is not part of this project: RABBITMQ_PROVIDER is its executable
// file.
func TestAccBesideAnotherProvider(t *testing.T) {
	other := os.Getenv("RABBITMQ_PROVIDER")
	if other == "" {
		t.Skip("RABBITMQ_PROVIDER, the executable file of the provider cyrilgdn/rabbitmq, is not set")
	}
	b := brokertest.Shared(t)
	for name, value := range map[string]string{
		"RABBITMQ_ENDPOINT": b.Endpoint, "RABBITMQ_USERNAME": b.Username, "RABBITMQ_PASSWORD": b.Password,
		"RABBITMQ_AMQP_URI":      b.AMQPURI,
		"TF_VAR_mailer_password": "secret", "TF_CLI_CONFIG_FILE": mirrored(t, other),
	} {
		t.Setenv(name, value)
	}
	example := filepath.Join(docstest.Examples, besideExample)
	replaced := t.TempDir()
	docstest.WriteExample(t, replaced, "main.tf", strings.Replace(docstest.ReadExample(t, besideExample, "main.tf"),
		`"x-queue-type" = "quorum"`, `"x-queue-type" = "classic"`, 1))
	step := func(directory string, isThere bool, checks ...plancheck.PlanCheck) resource.TestStep {
		s := resource.TestStep{ProtoV6ProviderFactories: harness.Providers, PlanOnly: isThere,
			ConfigDirectory:  config.StaticDirectory(directory),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: checks}}
		if isThere {
			s.PreConfig = func() { mustMail(t, *b) }
		}
		return s
	}
	resource.Test(t, resource.TestCase{Steps: []resource.TestStep{
		step(example, false),
		step(example, true),
		step(replaced, false,
			plancheck.ExpectResourceAction("rabbitmq_queue.mails", plancheck.ResourceActionDestroyBeforeCreate),
			plancheck.ExpectResourceAction("rabbitmqdelay_destination.mails", plancheck.ResourceActionUpdate)),
		step(replaced, true),
	}})
}

// mustMail sends a message as the user of the example, and receives it.
func mustMail(t *testing.T, mailer brokertest.Broker) {
	t.Helper()
	mailer.Username, mailer.Password = "mailer", "secret"
	conn, err := mailer.Dial("shop")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const delay = 2 * time.Second
	sent := harness.BrokerTime()
	publisher, err := brokertest.NewPublisher(conn)
	if err != nil {
		t.Fatal(err)
	}
	message := amqp.Publishing{DeliveryMode: amqp.Persistent}
	err = publisher.Publish(t.Context(), "reminders.d.h.m.s", "0.0.0.2.mails", message)
	if err != nil {
		t.Fatal(err)
	}
	arrivals, err := brokertest.Collect(conn, "mails")
	if err != nil {
		t.Fatal(err)
	}
	arrived, err := arrivals.Wait(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if after := arrived[0].At.Sub(sent); after < harness.Least(delay) {
		t.Errorf("the message arrived after %s", after)
	}
}

// mirrored is a command line configuration that takes the provider cyrilgdn/rabbitmq from the file.
func mirrored(t testing.TB, executable string) string {
	t.Helper()
	directory := t.TempDir()
	for _, host := range []string{"registry.terraform.io", "registry.opentofu.org"} {
		mirror := filepath.Join(directory, host, "cyrilgdn", "rabbitmq", "1.0.0", runtime.GOOS+"_"+runtime.GOARCH)
		if err := os.MkdirAll(mirror, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(executable, filepath.Join(mirror, "terraform-provider-rabbitmq_v1.0.0")); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(directory, "terraformrc")
	text := fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", directory)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
