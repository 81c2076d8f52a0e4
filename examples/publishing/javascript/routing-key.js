'use strict';

// The delay in steps of the resolution, then the address. The delay is rounded up so that no
// message is early. It is written in the base with one digit for each level. The bit operators of
// JavaScript end at 32 bits, text does not.
function routingKey(delayMs, levels, resolutionMs, address, base = 2) {
  if (!(Number.isInteger(base) && base >= 2 && base <= 10)) {
    throw new RangeError(`the base is ${base}, not one of 2 to 10`);
  }
  const steps = Math.ceil(delayMs / resolutionMs);
  const digits = steps.toString(base).padStart(levels, '0');
  if (!(delayMs >= 0 && Number.isSafeInteger(steps) && digits.length <= levels)) {
    throw new RangeError(
      `a delay of ${delayMs} ms does not fit ${levels} levels of ${resolutionMs} ms in base ${base}`,
    );
  }
  const key = [...digits, address].join('.');
  if (!address || Buffer.byteLength(key) > 255) {
    throw new RangeError(`the address '${address}' is empty or too long`);
  }
  return key;
}

module.exports = { routingKey };
