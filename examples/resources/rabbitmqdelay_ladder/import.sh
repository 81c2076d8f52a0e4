# The ID is <vhost>/<entry exchange>, each part percent-encoded; %2F is the vhost "/".
terraform import rabbitmqdelay_ladder.retry %2F/retry.entry
