package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
)

// Errors are all that is wrong with an operation. If it has not begun, that is all that stands in its way.
type Errors []error

func (e Errors) Error() string { return errors.Join(e...).Error() }

// Unwrap gives all of them.
func (e Errors) Unwrap() []error { return e }

// allErrors are those of the errors that are not nil, nil if there is none.
func allErrors(errs ...error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) == 0 {
		return nil
	}
	return Errors(errs)
}

// DeliveryError is for a delivery exchange that has to exist, and is missing or of another type than topic.
type DeliveryError struct {
	Exchange string
	Missing  bool
	// Type is what an exchange is that exists.
	Type string
	// AnyType is set where the exchange may be of any type.
	AnyType bool
}

func (e *DeliveryError) Error() string {
	if e.Missing {
		return fmt.Sprintf("delivery exchange %q does not exist", e.Exchange)
	}
	return fmt.Sprintf("delivery exchange %q is of type %q", e.Exchange, e.Type)
}

// ExistsError is for objects that are there already, in words.
type ExistsError struct {
	// Equal are exactly as desired, and Different are not.
	Equal, Different []string
	// Closed says that the entry is not among them.
	Closed bool
}

func (e *ExistsError) Error() string {
	return "these objects exist: " + strings.Join(slices.Concat(e.Different, e.Equal), ", ")
}

// Rival is another policy for the same exchanges as one of the topology.
type Rival struct {
	Policy    topology.Policy
	Exchanges []string
}

// RivalError is for a policy that would not apply because of others.
type RivalError struct {
	Policy topology.Policy
	Rivals []Rival
}

func (e *RivalError) Error() string {
	return topology.PolicyObject(e.Policy.Name) + " would not apply because of other policies"
}

// DisplacedError is for a policy that is to be set, and the policies of others that then no longer apply to its
// exchanges.
type DisplacedError struct {
	Policy topology.Policy
	Rivals []Rival
}

func (e *DisplacedError) Error() string {
	return topology.PolicyObject(e.Policy.Name) + " would take exchanges from other policies"
}

// TakeoverError is for a delivery exchange that is to become part of the topology, and is not as desired.
type TakeoverError struct{ Exchange topology.Object }

func (e *TakeoverError) Error() string {
	return "the delivery exchange differs: " + e.Exchange.String()
}

// StandingError is for a delivery exchange that would stay, because others use it, and is not as desired.
type StandingError struct {
	Exchange string
	Users    []string
}

func (e *StandingError) Error() string {
	return fmt.Sprintf("exchange %q stays, because other exchanges or queues use it: %s", e.Exchange,
		strings.Join(e.Users, ", "))
}

// OwnerError is for what others own: none of the owner's marks is that of the resource.
type OwnerError struct {
	// Meanwhile says that they took it over while the change had closed something.
	Meanwhile bool
}

func (e *OwnerError) Error() string { return "another resource owns it" }

// ReachedError is for objects to be adopted that messages reach from the entry of another owner, as well.
type ReachedError struct {
	Entry   string
	Objects []string
}

func (e *ReachedError) Error() string { return fmt.Sprintf("exchange %q leads into it, too", e.Entry) }

// ClosedError is for objects to be adopted whose entry is missing: somebody may be about to delete them.
type ClosedError struct{}

func (e *ClosedError) Error() string { return "its entry is missing" }

// SharedError is for what others own as well.
type SharedError struct{ Owners int }

func (e *SharedError) Error() string { return fmt.Sprintf("it has %d owners", e.Owners) }

// LeftError is for objects that are there after they were deleted.
type LeftError struct{ Objects topology.Topology }

func (e *LeftError) Error() string {
	return "RabbitMQ said that all is deleted, and these objects are still there: " +
		strings.Join(e.Objects.Objects(), ", ")
}

// failure is what went wrong in an operation of which more is to be said.
type failure struct{ Err error }

func (f failure) Error() string { return f.Err.Error() }

// Unwrap gives the failure.
func (f failure) Unwrap() error { return f.Err }

// NotCreatedError is for a create that has begun and failed.
type NotCreatedError struct {
	failure
	// Others are the objects that somebody else has declared meanwhile, in words. OthersErr is why they are unknown.
	Others    []string
	OthersErr error
	// Left is what could not be taken back, nil if all is gone, and Undo is why.
	Left *topology.Topology
	Undo error
}

// NotRemovedError is for objects that could not be removed.
type NotRemovedError struct {
	failure
	// Of is the topology to be removed.
	Of topology.Topology
	// Begun tells whether some of it may be gone.
	Begun bool
}

// DeliveryLeftError is for a delivery exchange that could not be deleted after all else was, by a destroy or a rebuild.
type DeliveryLeftError struct {
	failure
	Exchange string
}

// MissingError is for a queue or exchange that is to be a destination and does not exist.
type MissingError struct {
	Type topology.DestinationType
	Name string
}

func (e *MissingError) Error() string { return fmt.Sprintf("%s %q does not exist", e.Type, e.Name) }

// PermissionsError is for permissions that the user has not, in words.
type PermissionsError struct {
	User  string
	Lacks []string
}

func (e *PermissionsError) Error() string {
	return fmt.Sprintf("user %q lacks permissions: %s", e.User, strings.Join(e.Lacks, ", "))
}

// Misnaming is the fault of a name.
type Misnaming string

// What can be wrong with the names of a destination.
const (
	DelaysBehind  Misnaming = "the delivery exchange leads into delay queues"
	IsDelayQueue  Misnaming = "the queue is a delay queue"
	GoesInCircles Misnaming = "the exchange leads to the delivery exchange"
)

// MisnamedError is for a destination with a name that belongs into a cascade or ladder.
type MisnamedError struct {
	Misnaming Misnaming
	Binding   topology.Binding
}

func (e *MisnamedError) Error() string {
	return fmt.Sprintf("%s: %s", e.Binding.Describe(), e.Misnaming)
}

// LevelsError is for a binding that is made for another number of levels than all that ends in its exchange.
type LevelsError struct {
	Binding topology.Binding
	// There are the numbers of levels of what ends there.
	There map[int]bool
}

func (e *LevelsError) Error() string { return e.Binding.Describe() + ": no cascade has so many levels" }

// LosesOverdueError is for a quorum queue behind classic delay queues. Some of the messages that fall due while a node
// is down are lost when it starts. Of 60, 3 to 10 were (3.10.8, 4.0.5, 4.3.6; down for 15 s after a clean stop).
type LosesOverdueError struct{ Binding topology.Binding }

func (e *LosesOverdueError) Error() string {
	return e.Binding.Describe() + ": overdue messages get lost"
}

// NotVacantError is for bindings that are to go, and to which messages may be on their way.
type NotVacantError struct {
	failure
	Gone []topology.Binding
}

// UnfinishedError is for an operation on a destination that has begun and failed. Undo is why it could not be taken
// back: the new binding may be there. It is nil if all is known, or if the change is done.
type UnfinishedError struct {
	failure
	Undo error
}
