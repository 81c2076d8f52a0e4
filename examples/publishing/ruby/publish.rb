# frozen_string_literal: true

# Sends a message through a delay cascade, or takes one from a queue and sends it again, later:
#
#   ruby publish.rb send <delay in ms> <address> <body>
#   ruby publish.rb retry <queue> <delay in ms>

require 'bunny'
require_relative 'cascade'
require_relative 'routing_key'

# Returns when the broker has taken responsibility for the message, without what harms it or others
# in a cascade. The channel is in confirm mode.
def publish(channel, cascade, delay_ms, address, body, **properties)
  key = routing_key(delay_ms, cascade[:units_ms], cascade[:max_delay_ms], address)
  entry = Bunny::Exchange.new(channel, :topic, cascade[:entry_exchange], no_declare: true)
  returned = nil
  entry.on_return { |info, _properties, _body| returned = info } # before the confirmation
  headers = (properties[:headers] || {}).reject { |name, _| harmful?(name) }
  entry.publish(body, **properties, headers: headers, priority: nil, expiration: nil,
                                    routing_key: key, mandatory: true, persistent: true)
  raise 'the broker refused the message; try again later' unless channel.wait_for_confirms
  raise "no binding takes the key #{key}: #{returned.reply_text}" if returned
end

# Acknowledges a message only when its successor is safe: in doubt it is delivered twice, never
# lost.
def retry_later(channel, cascade, queue, delay_ms)
  delivery, properties, body = channel.basic_get(queue, manual_ack: true)
  raise "no message in #{queue}" unless delivery

  address = delivery.routing_key.split('.', cascade[:units_ms].length + 1).last
  publish(channel, cascade, delay_ms, address, body,
          **properties.to_hash.slice(:headers, :message_id, :content_type))
  channel.ack(delivery.delivery_tag)
end

# Further keys, which RabbitMQ uses again at every level, and the headers that it wrote during the
# delay. RabbitMQ 3 takes a message with such headers for one that goes in circles, lost or stuck.
# RabbitMQ 4.4 would hold one until x-opt-delivery-time.
def harmful?(header)
  %w[CC BCC x-death x-opt-delivery-time].include?(header) ||
    header.start_with?('x-first-death-', 'x-last-death-')
end

cascade = cascade_from_environment
connection = Bunny.new(ENV.fetch('RABBITMQ_AMQP_URI')).start
channel = connection.create_channel
channel.confirm_select
if ARGV[0] == 'retry'
  retry_later(channel, cascade, ARGV[1], Integer(ARGV[2]))
else
  publish(channel, cascade, Integer(ARGV[1]), ARGV[2], ARGV[3])
end
connection.close
