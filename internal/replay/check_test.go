package replay

import (
	"testing"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/policy"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

func TestDeliveryLimit(t *testing.T) {
	const many = int64(2_147_483_647)
	limits := func(values ...int64) topology.Arguments {
		if len(values) == 0 {
			return topology.Arguments{}
		}
		return topology.Arguments{"delivery-limit": values[0]}
	}
	for _, test := range []struct {
		what, broker string
		arguments    topology.Arguments
		applied      policy.Applied
		want         int64
	}{
		{"classic", "4.3.6", topology.Arguments{}, policy.Applied{Definition: limits(1)}, noLimit},
		{"ours", "3.10.8", topology.Arguments{"x-delivery-limit": many}, policy.Applied{}, many},
		{"none given", "4.0.5", topology.Arguments{}, policy.Applied{}, 20},
		{"none given", "3.10.8", topology.Arguments{}, policy.Applied{}, noLimit},
		{"none", "4.0.5", topology.Arguments{"x-delivery-limit": int64(-1)}, policy.Applied{}, noLimit},
		{"none", "3.10.8", topology.Arguments{"x-delivery-limit": int64(-1)}, policy.Applied{}, -1},
		{"by policy", "4.3.6", topology.Arguments{"x-delivery-limit": many}, policy.Applied{Definition: limits(5)}, 5},
		{"perhaps by policy", "4.3.6", topology.Arguments{"x-delivery-limit": many},
			policy.Applied{Perhaps: []policy.Applied{{Definition: limits(5)}}}, 5},
		{"not known", "4.3.6", topology.Arguments{"x-delivery-limit": many}, policy.Applied{Unknown: true}, 0},
	} {
		if test.what != "classic" {
			test.arguments["x-queue-type"] = "quorum"
		}
		got, known := deliveryLimit(topology.Queue{Name: "q", Arguments: test.arguments}, test.applied, test.broker)
		if got != test.want || known == test.applied.Unknown {
			t.Errorf("%s on %s: %d, %t, not %d", test.what, test.broker, got, known, test.want)
		}
	}
}
