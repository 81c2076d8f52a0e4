import java.util.Set;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.springframework.amqp.AmqpException;
import org.springframework.amqp.core.Message;
import org.springframework.amqp.core.MessageDeliveryMode;
import org.springframework.amqp.core.MessageProperties;
import org.springframework.amqp.rabbit.connection.CorrelationData;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.stereotype.Component;

/**
 * For Spring AMQP 4; in Spring AMQP 3, ack() is isAck(). Needs these properties of Spring Boot: spring.rabbitmq.publisher-confirm-type=correlated,
 * spring.rabbitmq.publisher-returns=true and spring.rabbitmq.template.mandatory=true.
 */
@Component
class DelayedPublisher {
    private final Cascade cascade = Cascade.fromEnvironment();
    private final RabbitTemplate rabbit;

    DelayedPublisher(RabbitTemplate rabbit) {
        this.rabbit = rabbit;
    }

    /** Returns when the broker has taken responsibility for the message, without what harms it or others in a cascade. */
    void publish(long delayMillis, String address, Message message) throws Exception {
        String key = RoutingKey.of(delayMillis, cascade.unitsMillis(), cascade.maxDelayMillis(), address);
        MessageProperties properties = message.getMessageProperties();
        properties.setDeliveryMode(MessageDeliveryMode.PERSISTENT);
        properties.setPriority(0);
        properties.setExpiration(null);
        properties.getHeaders().keySet().removeIf(DelayedPublisher::isHarmful);
        CorrelationData correlation = new CorrelationData(UUID.randomUUID().toString());
        rabbit.send(cascade.entryExchange(), key, message, correlation);
        if (!correlation.getFuture().get(30, TimeUnit.SECONDS).ack()) {
            throw new AmqpException("the broker refused the message; try again later");
        }
        if (correlation.getReturned() != null) { // it is set before the confirmation
            throw new AmqpException("no binding takes the key " + key);
        }
    }

    /**
     * Sends a received message again, later. Acknowledge it afterwards and not before (a listener does when it returns): in doubt it is
     * delivered twice, never lost.
     */
    void retry(Message message, long delayMillis) throws Exception {
        String received = message.getMessageProperties().getReceivedRoutingKey();
        int words = cascade.unitsMillis().size();
        String address = received.split("\\.", words + 1)[words];
        publish(delayMillis, address, message);
    }

    /**
     * Further keys, which RabbitMQ uses again at every level, and the headers that it wrote during the delay. RabbitMQ 3 takes
     * a message with such headers for one that goes in circles, lost or stuck. RabbitMQ 4.4 would hold one until
     * x-opt-delivery-time.
     */
    private static boolean isHarmful(String header) {
        return Set.of("CC", "BCC", "x-death", "x-opt-delivery-time").contains(header)
            || header.startsWith("x-first-death-") || header.startsWith("x-last-death-");
    }
}
