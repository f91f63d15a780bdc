package awstest

import (
	"strings"
	"testing"
)

// FuzzForm parses any body, and what it parsed once more: the result is the same.
func FuzzForm(f *testing.F) {
	for _, body := range []string{"", "Action=A&Filter.1.Name=tag%3AName&Filter.1.Value.2=x", "A.1=x&A=y", "A..B=1", "%zz=1", "A=%zz", "&&=&", "A=1&A=2", "A.2=b&A.10=c&A.1=a&A.x=d", "Tags.member.1.Key=%C3%A9+%00"} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		once, wrong := parseForm(body)
		if wrong != nil {
			if wrong.Status != 400 || wrong.Code == "" {
				t.Fatalf("%q: %v", body, wrong)
			}
			return
		}
		for name := range once.kids {
			once.texts(name)
			once.number(name, 0)
			once.truth(name, false)
		}
		again, wrong := parseForm(once.print())
		if wrong != nil || again.print() != once.print() {
			t.Fatalf("%q: %q, then %q (%v)", body, once.print(), again.print(), wrong)
		}
	})
}

// TestFormBounds refuses forms that no client sends.
func TestFormBounds(t *testing.T) {
	for body, code := range map[string]string{
		strings.Repeat("a=1&", maxFields+1):   "MalformedQueryString",
		strings.Repeat("x", maxBody+1):        "RequestEntityTooLarge",
		strings.Repeat("a.", maxDepth) + "a=": "MalformedQueryString",
		"a=1&a=2":                             "MalformedQueryString",
		".a=1":                                "MalformedQueryString",
	} {
		if _, wrong := parseForm(body); wrong == nil || wrong.Code != code {
			t.Errorf("%.20q: %v, want %s", body, wrong, code)
		}
	}
}

func TestListsAreInNumericalOrder(t *testing.T) {
	f, wrong := parseForm("A.2=b&A.10=c&A.1=a&A.x=d&A.-1=e")
	if wrong != nil {
		t.Fatal(wrong)
	}
	if got := strings.Join(f.texts("A"), ""); got != "abc" {
		t.Errorf("got %q", got)
	}
}

func TestFilterPatterns(t *testing.T) {
	for _, test := range []struct {
		pattern, text string
		want          bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"", "", true}, {"*", "", true}, {"*", "abc", true}, {"a*c", "abbc", true}, {"a*c", "abbcd", false},
		{"a*b*c", "aXbYbZc", true}, {"?", "", false}, {"a?c", "abc", true}, {`a\*`, "a*", true}, {`a\*`, "ab", false}, {`\?x`, "?x", true}, {"**a", "ba", true},
		{"kubernetes.io/cluster/*", "kubernetes.io/cluster/", true},
	} {
		if got := like(test.pattern, test.text); got != test.want {
			t.Errorf("like(%q, %q) = %v", test.pattern, test.text, got)
		}
	}
}

// FuzzPattern matches any pattern without hanging, and every text with itself quoted.
func FuzzPattern(f *testing.F) {
	f.Add("a*b?c", "aXbYc")
	f.Add(`\*`, `*`)
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 64 || len(text) > 256 {
			return
		}
		if like(pattern, text) && !like(pattern+"*", text) {
			t.Fatalf("%q is like %q, and not like that with more", text, pattern)
		}
		if quoted := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`).Replace(text); !like(quoted, text) {
			t.Fatalf("%q is not like %q", text, quoted)
		}
		if !like("*"+strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`).Replace(text), text) {
			t.Fatalf("%q does not end with itself", text)
		}
	})
}

// FuzzServe carries out any form as any action: it may be refused, and must not panic.
func FuzzServe(f *testing.F) {
	for o := range actions {
		f.Add("Action=" + o.name + "&VpcId=vpc-1&SubnetId=subnet-1&InstanceId.1=i-1&InstanceId=i-1&RouteTableId=rtb-1&DestinationCidrBlock=10.0.0.0/8")
	}
	f.Fuzz(func(t *testing.T, body string) {
		form, wrong := parseForm(body)
		if wrong != nil {
			return
		}
		s, err := Start("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var flat []string
		for name, value := range form.flat() {
			if name != "Action" {
				flat = append(flat, name, value)
			}
		}
		s.Do(form.text("Action"), flat...)
	})
}
