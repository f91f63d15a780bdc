package tabletest

import "testing"

func TestColumnsHaveTheWidthOfTheirWidestCell(t *testing.T) {
	want := "| name | µs |\n|------|---:|\n| a    | 10 |\n"
	if got := Markdown([]string{"name", "µs"}, []string{"a", "10"}); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
