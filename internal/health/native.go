package health

import (
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/topology"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/version"
)

// Native is the information that a broker could delay messages by itself. It names the entry exchange, once for all of
// its queues. There is none for a broker of an unknown version. There is none before 4.4, whose quorum queues are the
// first to delay published messages (pull request 16583 of RabbitMQ).
func Native(broker, entry string) []Finding {
	if !version.AtLeast(broker, 4, 4) {
		return nil
	}
	return []Finding{{Info, topology.ExchangeObject(entry), "RabbitMQ " + broker, "messages are delayed as before. " +
		"Quorum queues of this version also delay by themselves, until the time in the header x-opt-delivery-time. " +
		"Publishers can use that where all receivers have quorum queues. The guide \"Choosing a delay mechanism\" " +
		"has the way there and back"}}
}
