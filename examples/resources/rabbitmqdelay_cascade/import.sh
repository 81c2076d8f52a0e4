# The ID is <vhost>/<entry exchange>, each part percent-encoded; %2F is the vhost "/".
terraform import rabbitmqdelay_cascade.tasks %2F/tasks.delay-16
