module cancel

go 1.26.0

require (
	github.com/rabbitmq/amqp091-go v1.16.0
	go.etcd.io/bbolt v1.4.3
)

require golang.org/x/sys v0.29.0 // indirect
