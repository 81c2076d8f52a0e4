<?php

// Sends a message through a cascade by Symfony Messenger's AMQP transport: symfony.php <uri> <entry exchange> <key> <text>

declare(strict_types=1);

use Symfony\Component\Messenger\Bridge\Amqp\Transport\AmqpSender;
use Symfony\Component\Messenger\Bridge\Amqp\Transport\AmqpStamp;
use Symfony\Component\Messenger\Bridge\Amqp\Transport\Connection;
use Symfony\Component\Messenger\Envelope;

require 'Symfony/Component/Messenger/autoload.php';
require 'Symfony/Component/Messenger/Bridge/Amqp/autoload.php';

[, $uri, $entry, $key, $text] = $argv;
$connection = Connection::fromDsn($uri, [
    'exchange' => ['name' => $entry, 'type' => 'topic'],
    'queues' => [],
    'auto_setup' => false,
]);
$message = new stdClass();
$message->text = $text;
(new AmqpSender($connection))->send(new Envelope($message, [new AmqpStamp($key)]));
