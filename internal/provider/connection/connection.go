// Package connection has the way to the broker. Resources, data sources and list resources get a Connection from the
// provider when it is configured. It has the client, the engine, and the notes of a plan. They embed Configured,
// ask IsKnown, and call the Client and the Engine. A plan calls Ledger.Note for what it has, and gets its conflicts.
package connection

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
)

// Connection is what resources and all else that talks to the broker get from the provider. Terraform configures a
// provider once for a plan and once for an apply, so that a connection lives as long as one of these. For terraform
// test, it does so once for a file with many of them (since Terraform 1.13).
type Connection struct {
	// Client is nil while a value of the provider's configuration is unknown, which happens in plans only.
	Client *rabbit.Client
	Engine *engine.Engine
	Ledger *Ledger
}

// DefaultReadTimeout is how long a read may take unless the timeouts attribute of a resource says otherwise.
const DefaultReadTimeout = 2 * time.Minute

// IsKnown tells whether there is a way to the broker. It may be asked of a resource that was not configured.
func (c *Connection) IsKnown() bool { return c != nil && c.Client != nil }

// Configured is what resources and list resources have in common.
type Configured struct{ Connection *Connection }

// Configure takes what the provider hands over.
func (c *Configured) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	c.Connection, _ = req.ProviderData.(*Connection)
}
