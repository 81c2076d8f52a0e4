'use strict';

// The delay in steps of the resolution, rounded up so that no message is early, in binary with one digit for
// each level, then the destination. The bit operators of JavaScript end at 32 bits, text does not.
function routingKey(delayMs, levels, resolutionMs, destination) {
  const steps = Math.ceil(delayMs / resolutionMs);
  if (!(delayMs >= 0 && steps < 2 ** levels)) {
    throw new RangeError(`a delay of ${delayMs} ms does not fit ${levels} levels of ${resolutionMs} ms`);
  }
  const key = [...steps.toString(2).padStart(levels, '0'), destination].join('.');
  if (!destination || Buffer.byteLength(key) > 255) {
    throw new RangeError(`the destination '${destination}' is empty or too long`);
  }
  return key;
}

module.exports = { routingKey };
