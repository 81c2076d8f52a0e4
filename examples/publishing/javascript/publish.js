'use strict';

// Sends a message through a delay cascade, or takes one from a queue and sends it again, later:
//
//   node publish.js send <delay in ms> <address> <body>
//   node publish.js retry <queue> <delay in ms>

const amqp = require('amqplib');
const { cascadeFromEnvironment } = require('./cascade');
const { routingKey } = require('./routing-key');

// Resolves when the broker has taken responsibility for the message.
async function publish(connection, cascade, delayMs, address, body, options = {}) {
  const key = routingKey(delayMs, cascade.levels, cascade.resolutionMs, address, cascade.base);
  const channel = await connection.createConfirmChannel();
  let returned;
  channel.once('return', (message) => { returned = message; }); // before the confirmation
  channel.publish(cascade.entryExchange, key, body, { ...options, mandatory: true, persistent: true });
  await channel.waitForConfirms(); // rejects if the broker refuses the message
  await channel.close();
  if (returned) {
    throw new Error(`no binding takes the key ${key}: ${returned.fields.replyText}`);
  }
}

// Acknowledges a message only when its successor is safe: in doubt it is delivered twice, never lost.
async function retry(connection, cascade, queue, delayMs) {
  const channel = await connection.createChannel();
  const message = await channel.get(queue);
  if (!message) {
    throw new Error(`no message in ${queue}`);
  }
  const headers = Object.fromEntries(
    Object.entries(message.properties.headers ?? {}).filter(([name]) => !isDeathHeader(name)),
  );
  const address = message.fields.routingKey.split('.').slice(cascade.levels).join('.');
  const { messageId, contentType } = message.properties;
  await publish(connection, cascade, delayMs, address, message.content, { headers, messageId, contentType });
  channel.ack(message);
  await channel.close();
}

// What the broker wrote while the message was delayed. RabbitMQ 3 takes a message that brings it along for one
// that goes in circles: it is lost or stuck.
function isDeathHeader(name) {
  return name === 'x-death' || name.startsWith('x-first-death-') || name.startsWith('x-last-death-');
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
