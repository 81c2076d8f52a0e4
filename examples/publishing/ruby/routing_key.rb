# frozen_string_literal: true

# The delay in steps of the resolution, then the address. The delay is rounded up so that no message
# is early. It is written in the base with one digit for each level.
def routing_key(delay_ms, levels, resolution_ms, address, base: 2)
  raise ArgumentError, "the base is #{base}, not one of 2 to 10" unless [*2..10].include?(base)

  steps = -(-delay_ms).div(resolution_ms)
  digits = steps.to_s(base).rjust(levels, '0').chars
  if delay_ms.negative? || digits.length > levels
    raise ArgumentError,
          "a delay of #{delay_ms} ms does not fit #{levels} levels of #{resolution_ms} ms in base #{base}"
  end

  key = [*digits, address].join('.')
  if address.empty? || key.bytesize > 255
    raise ArgumentError, "the address #{address.inspect} is empty or too long"
  end

  key
end
