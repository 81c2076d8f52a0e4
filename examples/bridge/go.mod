module bridge

go 1.26.0

require (
	github.com/rabbitmq/amqp091-go v1.16.0
	golang.org/x/sync v0.24.0
)
