package plaintext

import (
	"strings"
	"unicode/utf8"
)

// Texts are the texts of all.
func Texts[T any](all []T, text func(T) string) []string {
	texts := make([]string, len(all))
	for i, each := range all {
		texts[i] = text(each)
	}
	return texts
}

// List lists texts as people do, with a word such as " and " before the last one.
func List(texts []string, word string) string {
	last := len(texts) - 1
	if last < 1 {
		return strings.Join(texts, "")
	}
	return strings.Join(texts[:last], ", ") + word + texts[last]
}

// Join joins the texts of all.
func Join[T any](all []T, separator string, text func(T) string) string {
	return strings.Join(Texts(all, text), separator)
}

// CommonPrefix is the beginning that one or more texts have in common. It does not end within a character.
func CommonPrefix(texts []string) string {
	common := texts[0]
	for _, text := range texts {
		for !strings.HasPrefix(text, common) {
			_, size := utf8.DecodeLastRuneInString(common)
			common = common[:len(common)-size]
		}
	}
	return common
}
