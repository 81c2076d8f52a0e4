package resource

import (
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/attribute"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/connection"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
)

// limited is a resource with this drain_timeout and these timeouts. The others are null.
func limited(drain string, given map[string]attr.Value) attribute.Values {
	texts, of := map[string]attr.Value{}, map[string]attr.Type{}
	for _, operation := range []string{"create", "read", "update", "delete"} {
		texts[operation], of[operation] = types.StringNull(), types.StringType
		if value := given[operation]; value != nil {
			texts[operation] = value
		}
	}
	return attribute.Values{"timeouts": timeouts.Value{Object: types.ObjectValueMust(of, texts)},
		"drain_timeout": tfvalue.Duration{StringValue: basetypes.NewStringValue(drain)}}
}

// Timeouts are read as every other duration is. The default of the others leaves time for a drain.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	text := func(s string) attr.Value { return types.StringValue(s) }
	given := limited("1h", map[string]attr.Value{"create": text("1d"), "read": text("1d12h"), "update": text("2w"),
		"delete": text("90s")})
	open := limited("1h", map[string]attr.Value{"update": types.StringUnknown()})
	none := attribute.Values{"timeouts": timeouts.Value{Object: types.ObjectNull(nil)}, "drain_timeout": nil}
	for _, of := range []struct {
		values                           attribute.Values
		create, read, update, deleteTime time.Duration
	}{
		{given, day, 36 * time.Hour, 14 * day, 90 * time.Second},
		{open, defaultWriteTimeout, connection.DefaultReadTimeout, defaultWriteTimeout + time.Hour,
			defaultWriteTimeout + time.Hour},
		{none, defaultWriteTimeout, connection.DefaultReadTimeout, defaultWriteTimeout, defaultWriteTimeout},
	} {
		read := timeoutOf(of.values, "read", connection.DefaultReadTimeout)
		create, update, destroy := writeTimeout(of.values, "create"), writeTimeout(of.values, "update"),
			writeTimeout(of.values, "destroy")
		if create != of.create || read != of.read || update != of.update || destroy != of.deleteTime {
			t.Errorf("%v: a create has %s, a read %s, an update %s, a destroy %s", of.values, create, read, update,
				destroy)
		}
	}
}

// An operation that waits needs more time than it waits, in whatever units.
func TestDrainTimeoutFitsIntoDays(t *testing.T) {
	t.Parallel()
	days := map[string]attr.Value{"delete": types.StringValue("1d"), "update": types.StringValue("2d")}
	if diags := checkDrainTimeout(limited("23h", days)); len(diags) > 0 {
		t.Errorf("23 hours do not fit into days: %v", diags)
	}
	diags := checkDrainTimeout(limited("24h", days))
	const want = "drain_timeout is 1d, which does not fit into timeouts.delete, 1d."
	if len(diags) != 1 || !strings.Contains(diags[0].Detail(), want) {
		t.Errorf("a day in a day gives %v", diags)
	}
}
