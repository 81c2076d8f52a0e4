// Package function has the functions of the provider. Each is one of pureFunction: what comes in are its arguments,
// and what goes out is a value or an error on an argument. Call All.
package function

import "github.com/hashicorp/terraform-plugin-framework/function"

// All are the functions. They are pure: none of them needs the provider to be configured.
func All() []func() function.Function {
	var all []func() function.Function
	for _, f := range []pureFunction{routingKey, parseRoutingKey, bindingKey, destinationKey, mermaid} {
		all = append(all, func() function.Function { return f })
	}
	return all
}
