package topology

import "strings"

// TopicKey is a routing key, or the pattern of a binding of a topic exchange, in words.
type TopicKey []string

// ParseTopicKey splits a key as RabbitMQ does. The empty key has no words, and there are empty words before, between
// and behind dots (split_topic_key in rabbit_db_topic_exchange).
func ParseTopicKey(key string) TopicKey {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}

// Matches tells whether the pattern takes a key: "*" stands for one word, which may be empty,
// "#" for any number of words.
func (pattern TopicKey) Matches(key TopicKey) bool {
	// taken[n] tells whether the pattern so far takes the first n words.
	taken := make([]bool, len(key)+1)
	taken[0] = true
	for _, word := range pattern {
		if word == "#" {
			for n := range key {
				taken[n+1] = taken[n+1] || taken[n]
			}
			continue
		}
		for n := len(key); n > 0; n-- {
			taken[n] = taken[n-1] && (word == "*" || word == key[n-1])
		}
		taken[0] = false
	}
	return taken[len(key)]
}
