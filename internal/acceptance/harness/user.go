package harness

import (
	"net/http"
	"net/url"
	"testing"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
)

// User is a user of the broker with the tag management, and nothing else at first.
type User struct {
	T           testing.TB
	of          *brokertest.Broker
	Admin       *rabbithole.Client
	Name, Vhost string
}

// UserPassword is the password of every user.
const UserPassword = "of the user"

// NewUser makes a user for a vhost, without a permission.
func NewUser(t testing.TB, b *brokertest.Broker, vhost string) *User {
	t.Helper()
	admin, err := rabbithole.NewClient(b.Endpoint, b.Username, b.Password)
	if err != nil {
		t.Fatal(err)
	}
	u := &User{T: t, of: b, Admin: admin, Name: "user of " + vhost, Vhost: vhost}
	t.Cleanup(func() { u.Succeeds(admin.DeleteUser(u.Name)) })
	u.Tag("management")
	return u
}

// Tag puts a tag in the place of those that the user has.
func (u *User) Tag(tag string) {
	u.T.Helper()
	u.Succeeds(u.Admin.PutUser(u.Name, rabbithole.UserSettings{Password: UserPassword, Tags: rabbithole.UserTags{tag}}))
}

// Password changes the password on the broker.
func (u *User) Password(password string) {
	u.T.Helper()
	u.Succeeds(u.Admin.PutUser(u.Name, rabbithole.UserSettings{Password: password,
		Tags: rabbithole.UserTags{"management"}}))
}

// Grant gives the permissions to configure, write and read.
func (u *User) Grant(permissions [3]string) {
	u.T.Helper()
	u.Succeeds(u.Admin.UpdatePermissionsIn(u.Vhost, u.Name, rabbithole.Permissions{Configure: permissions[0],
		Write: permissions[1], Read: permissions[2]}))
}

// Broker is the broker as the user sees it.
func (u *User) Broker() *brokertest.Broker {
	u.T.Helper()
	as := *u.of
	as.Username, as.Password = u.Name, UserPassword
	uri, err := url.Parse(as.AMQPURI)
	if err != nil {
		u.T.Fatal(err)
	}
	uri.User = url.UserPassword(u.Name, UserPassword)
	as.AMQPURI = uri.String()
	return &as
}

// Publish sends a message, as an administrator.
func (u *User) Publish(vhost, entry, key string) {
	u.T.Helper()
	connection, err := u.of.Dial(vhost)
	if err != nil {
		u.T.Fatal(err)
	}
	defer connection.Close()
	publisher, err := brokertest.NewPublisher(connection)
	if err != nil {
		u.T.Fatal(err)
	}
	if err := publisher.Publish(u.T.Context(), entry, key, amqp.Publishing{DeliveryMode: amqp.Persistent}); err != nil {
		u.T.Fatal(err)
	}
}

// Succeeds makes sure that a request was answered.
func (u *User) Succeeds(response *http.Response, err error) {
	u.T.Helper()
	if err != nil {
		u.T.Fatal(err)
	}
	_ = response.Body.Close()
}
