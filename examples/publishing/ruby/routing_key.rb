# frozen_string_literal: true

# A number for each unit, the largest unit first, then the address. The delay is rounded up to the
# last unit so that no message is early.
def routing_key(delay_ms, units_ms, max_delay_ms, address)
  unless delay_ms.between?(0, max_delay_ms)
    raise ArgumentError, "a delay of #{delay_ms} ms is not within 0 to #{max_delay_ms} ms"
  end

  rest = -(-delay_ms).div(units_ms.last) * units_ms.last
  numbers = units_ms.map do |unit_ms|
    number, rest = rest.divmod(unit_ms)
    number
  end
  key = [*numbers, address].join('.')
  if address.empty? || key.bytesize > 255
    raise ArgumentError, "the address #{address.inspect} is empty or too long"
  end

  key
end
