'use strict';

// Sends a message through a delay cascade, or takes one from a queue and sends it again, later:
//
//   node publish.js send <delay in ms> <address> <body>
//   node publish.js retry <queue> <delay in ms>

const amqp = require('amqplib');
const { cascadeFromEnvironment } = require('./cascade');
const { routingKey } = require('./routing-key');

// Resolves when the broker has taken responsibility for the message, without what harms it or
// others in a cascade.
async function publish(connection, cascade, delayMs, address, body, options = {}) {
  const key = routingKey(delayMs, cascade.unitsMs, cascade.maxDelayMs, address);
  const channel = await connection.createConfirmChannel();
  let returned;
  channel.once('return', (message) => { returned = message; }); // before the confirmation
  const headers = Object.fromEntries(Object.entries(options.headers ?? {}).filter(([name]) => !isHarmful(name)));
  const dropped = { priority: undefined, expiration: undefined, CC: undefined, BCC: undefined };
  channel.publish(cascade.entryExchange, key, body, {
    ...options, ...dropped, headers, mandatory: true, persistent: true,
  });
  await channel.waitForConfirms(); // rejects if the broker refuses the message
  await channel.close();
  if (returned) {
    throw new Error(`no binding takes the key ${key}: ${returned.fields.replyText}`);
  }
}

// Acknowledges a message only when its successor is safe: in doubt it is delivered twice, never
// lost.
async function retry(connection, cascade, queue, delayMs) {
  const channel = await connection.createChannel();
  const message = await channel.get(queue);
  if (!message) {
    throw new Error(`no message in ${queue}`);
  }
  const address = message.fields.routingKey.split('.').slice(cascade.unitsMs.length).join('.');
  const { headers, messageId, contentType } = message.properties;
  await publish(connection, cascade, delayMs, address, message.content, { headers, messageId, contentType });
  channel.ack(message);
  await channel.close();
}

// Further keys, which RabbitMQ uses again at every level, and the headers that it wrote during the
// delay. RabbitMQ 3 takes a message with such headers for one that goes in circles, lost or stuck.
// RabbitMQ 4.4 would hold one until x-opt-delivery-time.
function isHarmful(header) {
  return ['CC', 'BCC', 'x-death', 'x-opt-delivery-time'].includes(header)
    || header.startsWith('x-first-death-') || header.startsWith('x-last-death-');
}

async function main([command, first, second, body]) {
  const cascade = cascadeFromEnvironment();
  const connection = await amqp.connect(process.env.RABBITMQ_AMQP_URI);
  try {
    if (command === 'retry') {
      await retry(connection, cascade, first, Number(second));
    } else {
      await publish(connection, cascade, Number(first), second, Buffer.from(body));
    }
  } finally {
    await connection.close();
  }
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
