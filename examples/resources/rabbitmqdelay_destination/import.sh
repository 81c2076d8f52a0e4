# The ID is <vhost>/<delivery exchange>/<queue or exchange>/<its name>/<routing key>, each part
# percent-encoded; %2F is the vhost "/". A key that begins with "#" is written as %23.
terraform import rabbitmqdelay_destination.billing '%2F/orders.delivery/queue/billing/*.*.*.*.billing'
