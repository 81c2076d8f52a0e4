# The ID is <vhost>/<entry exchange>, each part percent-encoded; %2F is the vhost "/".
terraform import rabbitmqdelay_cascade.orders %2F/orders.d.h.m.s
