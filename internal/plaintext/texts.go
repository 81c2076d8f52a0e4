package plaintext

import "strings"

// Texts are the texts of all.
func Texts[T any](all []T, text func(T) string) []string {
	texts := make([]string, len(all))
	for i, each := range all {
		texts[i] = text(each)
	}
	return texts
}

// Join joins the texts of all.
func Join[T any](all []T, separator string, text func(T) string) string {
	return strings.Join(Texts(all, text), separator)
}
