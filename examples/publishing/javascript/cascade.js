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
  const { entry_exchange: entryExchange, base, levels, resolution_ms: resolutionMs } = json ?? {};
  if (typeof entryExchange === 'string' && entryExchange
      && [base, levels, resolutionMs].every((number) => Number.isSafeInteger(number) && number > 0)) {
    return { entryExchange, base, levels, resolutionMs };
  }
  console.error('set the environment variable PUBLISHER to JSON with a text entry_exchange '
    + 'and positive integers base, levels and resolution_ms');
  return process.exit(2);
}

module.exports = { cascadeFromEnvironment };
