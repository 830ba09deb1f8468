package strict

import "strings"

// nearest returns the known key that is most similar to an unknown key, because the user probably
// meant the known key. It returns "" if no known key is similar. Upper case, underscores, hyphens
// and spaces make no difference.
func nearest(key string, keys []string) string {
	if len(key) > 60 { // comparing a longer key would take too long
		return ""
	}
	written := plain(key)
	best, least := "", min(2+len(written)/8, len(written))
	for _, k := range keys {
		if d := distance(written, plain(k)); d < least || d == 0 {
			best, least = k, d
		}
	}
	return best
}

var separators = strings.NewReplacer("_", "", "-", "", " ", "")

func plain(key string) string { return strings.ToLower(separators.Replace(key)) }

// distance returns the Levenshtein distance of two texts in bytes: how many bytes must be
// inserted, deleted or replaced to turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1) // the distances between a[:i] and the beginnings of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
