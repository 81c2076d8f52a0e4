# frozen_string_literal: true

# The delay in steps of the resolution, rounded up so that no message is early, in binary with one digit
# for each level, then the destination.
def routing_key(delay_ms, levels, resolution_ms, destination)
  steps = -(-delay_ms).div(resolution_ms)
  if delay_ms.negative? || steps >= 2**levels
    raise ArgumentError, "a delay of #{delay_ms} ms does not fit #{levels} levels of #{resolution_ms} ms"
  end

  key = "#{steps.to_s(2).rjust(levels, '0').chars.join('.')}.#{destination}"
  if destination.empty? || key.bytesize > 255
    raise ArgumentError, "the destination #{destination.inspect} is empty or too long"
  end

  key
end
