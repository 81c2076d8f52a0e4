package acceptance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// brokerOfVersion is a broker that says that it is of another version.
func brokerOfVersion(t testing.TB, b *brokertest.Broker, version string) *brokertest.Broker {
	t.Helper()
	front := harness.NewRewriter(t, b, func(path string, object map[string]any) {
		if strings.HasSuffix(path, "/api/overview") {
			object["rabbitmq_version"] = version
		}
	})
	front.Version = version
	return front
}

// A broker from 4.4 on could delay by itself. The data source has that once. No plan, refresh or apply warns of it.
func TestNativeDelaysAreInformation(t *testing.T) {
	t.Parallel()
	for version, informs := range map[string]bool{"3.13.7": false, "4.3.6": false, "4.4.0-rc.1": true, "4.4.1": true} {
		for resource, is := range map[string]nativeCase{
			harness.CascadeType: {harness.Attributes{"name": "t", "levels": 3}, "t.delay-02"},
			harness.LadderType:  {harness.Attributes{"name": "t", "delays": harness.TextList("5s", "1m")}, "t.entry"},
		} {
			t.Run(version+" "+resource, func(t *testing.T) {
				t.Parallel()
				var want []string
				if informs {
					want = []string{fmt.Sprintf("info on exchange %q: RabbitMQ %s", is.entry, version)}
				}
				if found := is.findings(t, resource, version); !slices.Equal(found, want) {
					t.Errorf("it has the findings %q, not %q", found, want)
				}
			})
		}
	}
}

// nativeCase is a cascade or ladder, with its entry exchange.
type nativeCase struct {
	given harness.Attributes
	entry string
}

// findings are those of the data source, on a broker that says that it is of a version. Nothing else may say a word.
func (is nativeCase) findings(t *testing.T, resource, version string) (lines []string) {
	t.Helper()
	v := harness.NewVhost(t)
	p := harness.NewProtocolOf(t, resource, brokerOfVersion(t, v.Broker, version), nil)
	given := is.given.With(harness.Attributes{"vhost": v.Name})
	p.MustApply(given)
	if text := harness.WarningText(p.Refresh(t.Context())); text != "" {
		t.Errorf("the refresh warns: %s", text)
	}
	p.MustBeSettled(given)
	for _, f := range observedListOf(p, v, resource, is.entry, "findings") {
		var severity, object, cause string
		if err := errors.Join(f["severity"].As(&severity), f["object"].As(&object), f["cause"].As(&cause)); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%s on %s: %s", severity, object, cause))
	}
	return lines
}
