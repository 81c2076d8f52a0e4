# frozen_string_literal: true

require 'json'

POSITIVE = ->(number) { number.is_a?(Integer) && number.positive? }

# What publishers have to know of a cascade, from the JSON in the environment variable PUBLISHER.
# Ends the program if that is not right.
def cascade_from_environment
  case JSON.parse(ENV.fetch('PUBLISHER', ''), symbolize_names: true)
  in { entry_exchange: /./, base: POSITIVE, levels: POSITIVE, resolution_ms: POSITIVE } => cascade
    cascade
  end
rescue JSON::ParserError, NoMatchingPatternError
  warn 'set the environment variable PUBLISHER to JSON with a text entry_exchange ' \
       'and positive integers base, levels and resolution_ms'
  exit 2
end
