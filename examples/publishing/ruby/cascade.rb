# frozen_string_literal: true

require 'json'

POSITIVE = ->(number) { number.is_a?(Integer) && number.positive? }
POSITIVES = ->(numbers) { numbers.is_a?(Array) && numbers.any? && numbers.all?(POSITIVE) }

# What publishers have to know of a cascade, from the JSON in the environment variable PUBLISHER.
# Ends the program if that is not right.
def cascade_from_environment
  case JSON.parse(ENV.fetch('PUBLISHER', ''), symbolize_names: true)
  in { entry_exchange: /./, units_ms: POSITIVES, max_delay_ms: POSITIVE } => cascade
    cascade
  end
rescue JSON::ParserError, NoMatchingPatternError
  warn 'set the environment variable PUBLISHER to JSON with a text entry_exchange, ' \
       'a list units_ms of positive integers, and a positive integer max_delay_ms'
  exit 2
end
