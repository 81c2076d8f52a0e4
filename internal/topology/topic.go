package topology

import (
	"slices"
	"strings"
)

// TopicKey is a routing key, or the pattern of a binding of a topic exchange, in words.
type TopicKey []string

// Digits is a word of a pattern that stands for any word that begins with a digit. No key and no binding has it: words
// have no dot.
const Digits = "."

// ParseTopicKey splits a key as RabbitMQ does. The empty key has no words, and there are empty words before, between
// and behind dots (split_topic_key in rabbit_db_topic_exchange).
func ParseTopicKey(key string) TopicKey {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}

// IsPattern tells whether more keys than one may match.
func (pattern TopicKey) IsPattern() bool {
	return slices.Contains(pattern, "*") || slices.Contains(pattern, "#")
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
			taken[n] = taken[n-1] && takesWord(word, key[n-1])
		}
		taken[0] = false
	}
	return taken[len(key)]
}

// Meets tells whether there is a key that both patterns take.
func (pattern TopicKey) Meets(other TopicKey) bool {
	// meets[n] tells whether a key is taken by the rest of the pattern and by the words of the other one from n on.
	meets := make([]bool, len(other)+1)
	meets[len(other)] = true
	for n := len(other) - 1; n >= 0 && other[n] == "#"; n-- {
		meets[n] = true
	}
	for i := len(pattern) - 1; i >= 0; i-- {
		word, behind := pattern[i], meets
		meets = make([]bool, len(other)+1)
		meets[len(other)] = word == "#" && behind[len(other)]
		for n := len(other) - 1; n >= 0; n-- {
			if word == "#" || other[n] == "#" {
				meets[n] = behind[n] || meets[n+1]
			} else {
				meets[n] = behind[n+1] && (takesWord(word, other[n]) || takesWord(other[n], word))
			}
		}
	}
	return meets[0]
}

// takesWord tells whether a word of a pattern, "#" aside, takes a word.
func takesWord(pattern, word string) bool {
	begins := word != "" && word[0] >= '0' && word[0] <= '9'
	return pattern == "*" || pattern == word || pattern == Digits && begins
}
