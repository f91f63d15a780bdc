package flags

import "strings"

// Nearest returns the most similar of names if name is probably a typo of it, or "".
func Nearest(name string, names []string) string {
	const longest = 40 // longer than any name
	if len(name) > longest {
		return ""
	}
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	best, within := "", len(name)/3+1
	for _, candidate := range names {
		d := distance(name, strings.ReplaceAll(strings.ToLower(candidate), "_", "-"))
		if d < within {
			best, within = candidate, d
		}
	}
	return best
}

// DidYouMean returns the fix for an unknown name.
func DidYouMean(near, otherwise string) string {
	if near == "" {
		return otherwise
	}
	return "did you mean " + near + "?"
}

// distance returns how many bytes to insert, delete or replace to get from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
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
