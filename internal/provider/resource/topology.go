package resource

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/health"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/attribute"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/importid"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/recognize"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// What cascades and ladders do as resources.

// entryIdentity is that of a cascade or ladder.
var entryIdentity = map[string]identityschema.Attribute{
	"vhost": identityschema.StringAttribute{RequiredForImport: true, Description: "Virtual host."},
	"entry_exchange": identityschema.StringAttribute{RequiredForImport: true,
		Description: "Exchange that publishers use."},
}

// topologySubject has the words for a cascade or ladder.
func topologySubject[C any](r *managed[C], x attribute.Resolved[C], v attribute.Values) diagnose.Subject {
	vhost := v.Text("vhost")
	return diagnose.Subject{Kind: r.kind.name, Vhost: vhost, Desired: x.Desired, Options: optionsOf(v),
		Importable: func(ctx context.Context) (topology.Topology, bool) {
			found, err := r.kind.recognize(ctx, r.Connection.Client.Vhost(vhost), vhost, x.Desired.Entry)
			if err != nil {
				return topology.Topology{}, false
			}
			recognized, err := r.kind.Resolve(found)
			return recognized.Desired, err == nil
		}}
}

// sayOfTopology has the words for what came of a change of a cascade or ladder.
func sayOfTopology[C any](
	ctx context.Context, r *managed[C], c *change[C], result engine.Result, err error,
) diag.Diagnostics {
	s := topologySubject(r, c.is, c.now)
	s.Before = c.engine.Before
	return append(s.Explain(ctx, c.verb(), err), s.Outcome(result, err == nil)...)
}

func parseEntryID(example string) func(string) (attribute.Values, error) {
	return func(id string) (attribute.Values, error) {
		vhost, entry, err := importid.ParseEntry(id, example)
		return attribute.Values{"vhost": types.StringValue(vhost), "entry_exchange": types.StringValue(entry)}, err
	}
}

func checkEntryIdentity(id attribute.Values) string {
	if id.Text("vhost") == "" || id.Text("entry_exchange") == "" {
		return "The identity has to have both vhost and entry_exchange, and neither may be empty."
	}
	return ""
}

// findTopology looks for a cascade or ladder, whoever declared it, and says what an import leaves out or assumes.
func findTopology[C any](
	ctx context.Context, r *managed[C], id attribute.Values, _ privateState,
) (found C, diags diag.Diagnostics) {
	vhost := r.Connection.Client.Vhost(id.Text("vhost"))
	s := diagnose.OfEntry(r.kind.name, vhost.Name(), id.Text("entry_exchange"))
	found, err := r.kind.recognize(ctx, vhost, s.Vhost, s.Desired.Entry)
	if other, is := errors.AsType[*recognize.OtherEntryError](err); is {
		err = fmt.Errorf("%w. Import that:\n\n%s", err,
			diagnose.WaysToImport(other.Kind, importid.Entry(s.Vhost, other.Entry)))
	}
	if err != nil {
		return found, diag.Diagnostics{s.Failed("import", err)}
	}
	if r.kind.beside == nil {
		return found, nil
	}
	there, err := engine.Inventory(ctx, vhost, recognize.CanBeEntry)
	if err != nil { // no reason to refuse the import
		failed := s.Failed("look for queues beside", err)
		return found, diag.Diagnostics{diagnose.Warning(failed.Summary(), "%s", failed.Detail())}
	}
	return found, r.kind.beside(ctx, there, s.Vhost, found)
}

// readTopology reads the objects of a cascade or ladder, and says in what they differ.
func readTopology[C any](
	ctx context.Context, r *managed[C], x attribute.Resolved[C], state attribute.Values, private privateState,
) (there *topology.Topology, diags diag.Diagnostics) {
	address, diags := ensureAddressID(ctx, private)
	owner, more := r.owner(ctx, private, state)
	diags.Append(more...)
	if owner != "" {
		diags.Append(setPrivate(ctx, private, ownerKey, owner)...)
	}
	if diags.HasError() {
		return nil, diags
	}
	x.Desired = x.Desired.WithOwner(owner)
	s := topologySubject(r, x, state)
	found, err := engine.Observe(ctx, r.Connection.Client.Vhost(s.Vhost), x.Desired)
	switch {
	case err != nil && !rabbit.IsKind(err, rabbit.VhostNotFound):
		return nil, append(diags, s.Failed("read", err))
	case err != nil || found.IsEmpty():
		r.Connection.Ledger.Forget(address)
		return nil, s.Gone(err)
	}
	diags.Append(s.Owners(x.Desired, found.Topology)...)
	damages := health.Damages(x.Desired, found.Topology, found.Status)
	diags.Append(s.Drift(damages)...)
	diags.Append(s.Warnings(found.Findings)...)
	diags.Append(setPrivate(ctx, private, damagesKey, health.Keys(damages))...)
	diags.Append(setPrivate(ctx, private, inFlightKey, diagnose.CountWaiting(x.Desired, found.State))...)
	return &found.Topology, diags
}
