package diagnose

import (
	"github.com/hashicorp/terraform-plugin-framework/diag"
)

// What the ledger of a plan finds: two addresses with the same objects.

// DeclaredTwice is for two resources of a plan that both declare the same objects.
func (s Subject) DeclaredTwice(other Subject, objects []string) diag.Diagnostic {
	return Error("Two resources declare the same objects",
		"The %s and a %s with entry exchange %q, elsewhere in this plan, both declare:\n\n  "+
			"%s\n\nGive one of the two other names. If both are in the state already, take one of them out of the "+
			"configuration and of the state:\n\n%s%s", s, other.Kind, other.Desired.Entry, listed(atMost(objects)),
		removedBlock, stopsDestroy)
}

// CreatedTwice is likewise for two creates. Terraform does not say whether they are one resource that it plans again.
func (s Subject) CreatedTwice(other Subject, objects []string) diag.Diagnostic {
	return Warning(s.about("Two resources declare the same objects"),
		"The %s and a %s with entry exchange %q, elsewhere in this plan, are both to be created, and declare:\n\n  "+
			"%s\n\nThe apply creates one of the two, and refuses the other one, unless that has adopt = true. Give "+
			"one of them other names. Nothing is wrong in terraform test, which plans one resource several times.", s,
		other.Kind, other.Desired.Entry, listed(atMost(objects)))
}

// WouldDelete is for a resource that would delete what another one declares.
func (s Subject) WouldDelete(other Subject, objects []string) diag.Diagnostic {
	return Error("The plan deletes what another resource declares",
		"The plan takes these objects away from the %s. A %s with entry exchange %q, elsewhere in this plan, declares "+
			"them:\n\n  %s\n\n"+elsewhere+" Terraform calls the two in any order, so that the objects "+
			"may be gone in the end. If it is one and the same under a new address, say so:\n\n  moved {\n    from = "+
			"<address before>\n    to   = <address now>\n  }\n\nOr let the new one take over with adopt = true, and "+
			"take the old one out of the state:\n\n%s\n\nTo swap names, apply a temporary name for one of the two "+
			"first. If the new one is to begin empty, apply without it first.%s", s, other.Kind, other.Desired.Entry,
		listed(atMost(objects)), removedBlock, stopsDestroy)
}

const (
	elsewhere = "Elsewhere is another address, or the same one where create_before_destroy has left an object behind."

	removedBlock = "  removed {\n    from = <address before>\n    lifecycle {\n      destroy = false\n    }\n  }\n\n" +
		"For one key of count or for_each, run this in its place: terraform state rm '<address>'."
	stopsDestroy = "\n\nA destroy of everything plans before, and stops at this error, too. Such a destroy needs: " +
		"terraform destroy -refresh=false."
)

// LeavesToOthers is likewise for a resource that others own on the broker, so that its destroy leaves everything.
func (s Subject) LeavesToOthers(other Subject, objects []string) diag.Diagnostic {
	return Warning("Left to the "+other.String(),
		"The plan takes these objects away from the %s. The other one, elsewhere in this plan, declares "+
			"them:\n\n  %s\n\n"+elsewhere+" The entry exchange has the owner's mark of another resource, and not that "+
			"of the first. So the apply leaves the objects.", s, listed(atMost(objects)))
}
