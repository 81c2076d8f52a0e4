package acceptance

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// A state that an earlier version wrote is read, and the broker has what it stands for. The states were recorded.
func TestStatesOfEarlierVersions(t *testing.T) {
	t.Parallel()
	for typeName, configuration := range map[string]attributes{
		cascadeType: {"name": "tasks", "levels": 2},
		ladderType:  {"name": "retry", "delays": textSet("5s", "1m"), "dead_letter_routing_key": "again"},
	} {
		t.Run(typeName, func(t *testing.T) {
			t.Parallel()
			v := newVhost(t)
			p := newProtocolOf(t, typeName, v.broker, nil)
			configuration := configuration.with(attributes{"vhost": v.name})
			p.mustApply(configuration)

			recorded, err := os.ReadFile(fmt.Sprintf("testdata/states/%s-0.json", typeName))
			if err != nil {
				t.Fatal(err)
			}
			state := strings.Replace(string(recorded), `"vhost": "up"`, fmt.Sprintf(`"vhost": %q`, v.name), 1)
			upgraded, err := p.server.UpgradeResourceState(t.Context(), &tfprotov6.UpgradeResourceStateRequest{
				TypeName: typeName, Version: 0, RawState: &tfprotov6.RawState{JSON: []byte(state)}})
			if err != nil {
				t.Fatal(err)
			}
			noErrors(t, upgraded.Diagnostics)
			current := p.state
			p.state = p.value(upgraded.UpgradedState)
			p.mustBeSettled(configuration)
			if !p.state.Equal(current) {
				differences, err := p.state.Diff(current)
				t.Errorf("the upgraded state differs from one that was written anew: %v %v", differences, err)
			}
		})
	}
}
