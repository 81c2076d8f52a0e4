'use strict';

// A number for each unit, the largest unit first, then the address. The delay is rounded up to the
// last unit so that no message is early.
function routingKey(delayMs, unitsMs, maxDelayMs, address) {
  if (!(delayMs >= 0 && delayMs <= maxDelayMs)) {
    throw new RangeError(`a delay of ${delayMs} ms is not within 0 to ${maxDelayMs} ms`);
  }
  const last = unitsMs.at(-1);
  let rest = Math.ceil(delayMs / last) * last;
  const numbers = unitsMs.map((unitMs) => {
    const number = Math.floor(rest / unitMs);
    rest %= unitMs;
    return number;
  });
  const key = [...numbers, address].join('.');
  if (!address || Buffer.byteLength(key) > 255) {
    throw new RangeError(`the address '${address}' is empty or too long`);
  }
  return key;
}

module.exports = { routingKey };
