package topology

import "slices"

// Create is the Diff of a topology that nobody else may have a part in: what it declares has to be new. The delivery exchange is
// shared by nature and may be there. One object is declared before all others, so that of several creates at once only one
// gets further.
func Create(desired, actual Topology) Plan {
	plan := Diff(desired, actual)
	for _, phase := range plan {
		for i, step := range phase.Steps {
			switch s := step.(type) {
			case DeclareExchange:
				s.New = s.Exchange.Name != desired.Delivery
				phase.Steps[i] = s
			case DeclareQueue:
				s.New = true
				phase.Steps[i] = s
			}
		}
	}
	return plan.oneFirst()
}

// oneFirst puts the first declaration of something new into a phase of its own.
func (p Plan) oneFirst() Plan {
	if len(p) == 0 {
		return p
	}
	steps := p[0].Steps
	first := slices.IndexFunc(steps, MustBeNew)
	if first < 0 {
		return p
	}
	rest := slices.Delete(slices.Clone(steps), first, first+1)
	return append(Plan{}.then(steps[first]).then(rest...), p[1:]...)
}

// MustBeNew tells whether a step is a declaration that must not find what it declares.
func MustBeNew(step Step) bool {
	switch s := step.(type) {
	case DeclareExchange:
		return s.New
	case DeclareQueue:
		return s.New
	}
	return false
}
