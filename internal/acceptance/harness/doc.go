// Package harness is what the acceptance tests share. A broker, a configuration and things that go wrong come in;
// plans, states, objects and messages go out. A test of it begins like this:
//
//	v := harness.NewVhost(t)                         // its own, and all that is done there without Terraform
//	p := harness.NewProtocol(t, v.Broker, nil)       // one resource, in the hands of the provider
//	p.MustApply(harness.Attributes{"vhost": v.Name, "name": "t", "levels": 2})
//	v.MustHold(harness.Expand(t, delay.Config{...})) // and nothing else is there
//
// A CommandLine or a Workspace runs Terraform itself. A Traffic sends messages for hours and keeps account of each. A
// Gateway answers in the broker's place, a FaultProxy spoils a request, and a User has no more than some rights.
// An Interrupted is an operation in which something goes wrong, and a Trial one go at it.
package harness
