'use strict';

// What publishers have to know of a cascade, from the JSON in the environment variable PUBLISHER.
// Ends the program if that is not right.
function cascadeFromEnvironment() {
  let json;
  try {
    json = JSON.parse(process.env.PUBLISHER);
  } catch {
    json = {};
  }
  const { entry_exchange: entryExchange, units_ms: unitsMs, max_delay_ms: maxDelayMs } = json ?? {};
  if (typeof entryExchange === 'string' && entryExchange && Array.isArray(unitsMs) && unitsMs.length > 0
      && [...unitsMs, maxDelayMs].every((number) => Number.isSafeInteger(number) && number > 0)) {
    return { entryExchange, unitsMs, maxDelayMs };
  }
  console.error('set the environment variable PUBLISHER to JSON with a text entry_exchange, '
    + 'a list units_ms of positive integers, and a positive integer max_delay_ms');
  return process.exit(2);
}

module.exports = { cascadeFromEnvironment };
