<?php

/**
 * Sends a message through a delay cascade, or takes one from a queue and sends it again, later:
 *
 *   php publish.php send <delay in ms> <address> <body>
 *   php publish.php retry <queue> <delay in ms>
 */

declare(strict_types=1);

use PhpAmqpLib\Channel\AMQPChannel;
use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

// Composer's autoloader, or the one of Debian's php-amqplib.
require_once is_file('vendor/autoload.php') ? 'vendor/autoload.php' : 'PhpAmqpLib/autoload.php';
require_once __DIR__ . '/cascade.php';
require_once __DIR__ . '/routing_key.php';

/** Returns when the broker has taken responsibility for the message, without what harms it or others in a cascade. */
function publish(AMQPChannel $channel, Cascade $cascade, int $delayMs, string $address, AMQPMessage $message): void
{
    $key = routingKey($delayMs, $cascade->unitsMs, $cascade->maxDelayMs, $address);
    $message->set('delivery_mode', AMQPMessage::DELIVERY_MODE_PERSISTENT);
    $message->set('priority', null);
    $message->set('expiration', null);
    $headers = $message->has('application_headers') ? $message->get('application_headers')->getNativeData() : [];
    $kept = array_filter($headers, fn ($name) => !isHarmful((string) $name), ARRAY_FILTER_USE_KEY);
    $message->set('application_headers', new AMQPTable($kept));
    $failure = null;
    $channel->confirm_select();
    $channel->set_nack_handler(function () use (&$failure) {
        $failure = 'the broker refused the message; try again later';
    });
    $channel->set_return_listener(function (int $code, string $text) use (&$failure, $key) {
        $failure = "no binding takes the key $key: $text"; // before the confirmation
    });
    $mandatory = true;
    $channel->basic_publish($message, $cascade->entryExchange, $key, $mandatory);
    $channel->wait_for_pending_acks_returns(30);
    if ($failure !== null) {
        throw new RuntimeException($failure);
    }
}

/** Acknowledges a message only when its successor is safe: in doubt it is delivered twice, never lost. */
function retry(AMQPChannel $channel, Cascade $cascade, string $queue, int $delayMs): void
{
    $message = $channel->basic_get($queue) ?? throw new RuntimeException("no message in $queue");
    $properties = $message->get_properties();
    unset($properties['user_id']); // the broker refuses that of another user
    $words = count($cascade->unitsMs);
    $address = explode('.', $message->getRoutingKey(), $words + 1)[$words];
    publish($channel, $cascade, $delayMs, $address, new AMQPMessage($message->getBody(), $properties));
    $message->ack();
}

/**
 * Further keys, which RabbitMQ uses again at every level, and the headers that it wrote during the delay. RabbitMQ 3
 * takes a message with such headers for one that goes in circles, lost or stuck. RabbitMQ 4.4 would hold one until
 * x-opt-delivery-time.
 */
function isHarmful(string $header): bool
{
    return in_array($header, ['CC', 'BCC', 'x-death', 'x-opt-delivery-time'], true)
        || str_starts_with($header, 'x-first-death-') || str_starts_with($header, 'x-last-death-');
}

$cascade = Cascade::fromEnvironment();
$uri = parse_url(getenv('RABBITMQ_AMQP_URI'));
$connection = new AMQPStreamConnection(
    $uri['host'],
    $uri['port'] ?? 5672,
    rawurldecode($uri['user']),
    rawurldecode($uri['pass']),
    rawurldecode(substr($uri['path'] ?? '/%2F', 1))
);
$channel = $connection->channel();
if ($argv[1] === 'retry') {
    retry($channel, $cascade, $argv[2], (int) $argv[3]);
} else {
    publish($channel, $cascade, (int) $argv[2], $argv[3], new AMQPMessage($argv[4]));
}
$connection->close();
