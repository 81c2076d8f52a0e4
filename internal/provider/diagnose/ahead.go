package diagnose

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Words for what a plan sees coming: a warning has what the apply would say. What the same apply may make before is
// only not there now.

const (
	asThingsAre = "The apply will fail, as things are. "
	unlessMade  = "If the same configuration makes it, refer to the resource that does: Terraform makes that first. " +
		"Otherwise the apply will fail."
)

// unusableBroker is for a broker that refuses the user, or something else that answers. Its summary is the same for all
// that meet the same.
func unusableBroker(vhost string, about func(string) string, err error) diag.Diagnostic {
	said := rabbit.Describe(err)
	switch {
	case rabbit.IsKind(err, rabbit.VhostNotFound):
		return WarningOn("vhost", fmt.Sprintf("Vhost %q is not there now", vhost), "%s\n\n%s", unlessMade,
			said.Detail())
	case rabbit.IsBarred(err):
		return WarningOn("vhost", fmt.Sprintf("User may not use vhost %q now", vhost), "%s%s", asThingsAre,
			said.Detail())
	case rabbit.IsOfConnection(err):
		return Warning(said.Summary(), "%s%s\n\nAll that this provider is to create meets the same.", asThingsAre,
			said.Detail())
	}
	return Warning(about(said.Summary()), "%s%s", asThingsAre, said.Detail())
}

// notThereNow is for what has to be there before, and may be made by the same apply.
func notThereNow(attribute string, kind topology.DestinationType, name, vhost, more string) diag.Diagnostic {
	return WarningOn(attribute, fmt.Sprintf("%s %q in vhost %q is not there now", title(string(kind)), name, vhost),
		"%s%s", unlessMade, more)
}

// lacks is for permissions that the user has not.
func lacks(vhost string, about func(string) string, err *engine.PermissionsError) diag.Diagnostic {
	return Warning(about(rabbit.Forbidden.Summary()), "%sUser %q lacks these permissions in vhost %q:\n\n  %s\n\nThe "+
		"guide to permissions has the expressions for rabbitmqctl set_permissions.", asThingsAre, err.User, vhost,
		listed(atMost(err.Lacks)))
}

// foretold is a warning with what an apply would say.
func foretold(about func(string) string, d diag.Diagnostic) diag.Diagnostic {
	return Warning(about(d.Summary()), asThingsAre+"%s", strings.TrimPrefix(d.Detail(), nothingWritten))
}

// Unusable warns in a plan of a broker or vhost that keeps the create from anything.
func (s Subject) Unusable(err error) diag.Diagnostic { return unusableBroker(s.Vhost, s.about, err) }

// WouldFail warns in a plan of what its create or update would meet. The verb is that action.
func (s Subject) WouldFail(ctx context.Context, verb string, err error) diag.Diagnostics {
	if rabbit.IsKind(err, rabbit.LavinMQ) {
		return diag.Diagnostics{s.Failed(verb, err)}
	}
	said := func(err error) (diags diag.Diagnostics) {
		for _, d := range s.Explain(ctx, verb, err) {
			diags.Append(foretold(s.about, d))
		}
		return diags
	}
	return explain(err, nil,
		when(func(e *engine.DeliveryError) diag.Diagnostic {
			if !e.Missing {
				return nil
			}
			return notThereNow("delivery_exchange", topology.ToExchange, e.Exchange, s.Vhost,
				fmt.Sprintf(" With create_delivery_exchange = true, the %s makes it.", s.Kind))
		}),
		when(func(e *engine.PermissionsError) diag.Diagnostic { return lacks(s.Vhost, s.about, e) }),
		when(func(e *engine.OwnerError) diag.Diagnostic { // Terraform folds it into that of the refresh
			return foretold(func(summary string) string { return summary }, s.ofOthers(e))
		}),
		said)
}

// Ahead has the words for what a plan sees coming. A name that belongs into a cascade or ladder is an error.
func (d Destination) Ahead(problems []engine.Problem) (diags diag.Diagnostics) {
	for _, problem := range problems {
		switch problem.Code {
		case engine.Unusable:
			diags.Append(unusableBroker(d.Vhost, d.about, problem.Cause))
		case engine.Refused:
			diags.Append(d.wouldNotBeMade(problem.Cause)...)
		default:
			diags.Append(d.Explain("plan", problem.Cause)...)
		}
	}
	return diags
}

func (d Destination) wouldNotBeMade(err error) diag.Diagnostics {
	return explain(err, func(err error) diag.Diagnostic { return d.Failed("plan", err) },
		when(Misnaming{d.Vhost, "a cascade or ladder"}.Explain),
		when(func(e *engine.DeliveryError) diag.Diagnostic {
			if e.Missing {
				return notThereNow("delivery_exchange", topology.ToExchange, e.Exchange, d.Vhost, "")
			}
			return foretold(d.about, d.unusable(e))
		}),
		when(func(e *engine.MissingError) diag.Diagnostic {
			return notThereNow(string(e.Type), e.Type, e.Name, d.Vhost, " "+declaredElsewhere(e.Type))
		}),
		when(func(e *engine.PermissionsError) diag.Diagnostic { return lacks(d.Vhost, d.about, e) }))
}
