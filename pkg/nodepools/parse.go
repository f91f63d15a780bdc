package nodepools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/tulle-net/tulle/pkg/ipam"
	"github.com/tulle-net/tulle/subnet"
)

const (
	mostPools  = 1000
	mostRanges = 1000 // of a family of a pool
)

// These are the fields of a pool, and of a family in it.
var (
	poolFields   = []string{"name", "nodeSelector", "ipv4", "ipv6", "draining"}
	familyFields = []string{"ranges", "blockBits", "drainingRanges"}
)

// defaultBits are the lengths of blocks if the file gives none.
var defaultBits = subnet.Pair[int]{subnet.IPv4: 24, subnet.IPv6: 64}

// Parse returns the pools in text. beside are the pools from elsewhere: Parse refuses a
// pool that has the name or an address of one of them. An error names the place and the fix.
func Parse(text []byte, beside []ipam.Pool) ([]ipam.Pool, error) {
	if line := secondDocument(text); line > 0 {
		return nil, fmt.Errorf("line %d: a second YAML document begins; write all pools into one", line)
	}
	object, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, notYAML(err)
	}
	file := value{}
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber()
	if err := decoder.Decode(&file.is); err != nil {
		return nil, notYAML(err)
	}
	fields, err := file.fields("pools", "firstFamily")
	if err != nil {
		return nil, err
	}
	first, err := firstFamily(fields["firstFamily"], beside)
	if err != nil {
		return nil, err
	}
	list, ok := fields["pools"]
	if !ok {
		return nil, file.wrong("has no pools; write a list under the key pools")
	}
	items, err := list.items(mostPools)
	if err != nil {
		return nil, err
	}
	var all []ipam.Pool
	for _, item := range items {
		p, err := pool(item)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(slices.Concat(beside, all), func(other ipam.Pool) bool { return other.Name == p.Name }) {
			return nil, item.wrong("another pool is also called %s; give each its own name", p.Name)
		}
		p.First = first
		all = append(all, p)
	}
	if len(all) == 0 {
		return nil, list.wrong("has no pool; add one")
	}
	return all, apart(slices.Concat(beside, all))
}

// notYAML returns a parser's error in one line. The parser names the line of the file.
func notYAML(err error) error {
	text := strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), "yaml: ", "")), " ")
	return fmt.Errorf("not YAML: %.300s", text)
}

// firstFamily returns the family whose block a Node lists first: that of the other
// pools, if there are any.
func firstFamily(v value, beside []ipam.Pool) (subnet.Family, error) {
	if v.path == "" {
		if len(beside) > 0 {
			return beside[0].First, nil
		}
		return subnet.IPv4, nil
	}
	text, err := v.text()
	if err != nil {
		return 0, err
	}
	for _, f := range []subnet.Family{subnet.IPv4, subnet.IPv6} {
		if text == f.String() {
			if len(beside) > 0 && beside[0].First != f {
				return 0, v.wrong("is %s, and pool %s lists %s first; remove this field", f, beside[0].Name, beside[0].First)
			}
			return f, nil
		}
	}
	return 0, v.wrong("is %s; write IPv4 or IPv6", v.kind())
}

// keys are the families' keys in a pool.
var keys = subnet.Pair[string]{subnet.IPv4: "ipv4", subnet.IPv6: "ipv6"}

// pool returns the pool that v describes.
func pool(v value) (p ipam.Pool, err error) {
	fields, err := v.fields(poolFields...)
	if err != nil {
		return p, err
	}
	if p.Name, err = name(v, fields); err != nil {
		return p, err
	}
	p.Grow = "add a range to the pool " + p.Name + " in the file of pools"
	for f, key := range keys {
		if of, is := fields[key]; is {
			if err := family(&p, subnet.Family(f), of); err != nil {
				return p, err
			}
		}
	}
	if err := p.Check(); err != nil {
		return p, v.wrong("%s", err)
	}
	if s, is := fields["nodeSelector"]; is {
		if p.Selector, err = selector(s); err != nil {
			return p, err
		}
	}
	if d, is := fields["draining"]; is {
		all, err := d.yes()
		if err != nil {
			return p, err
		}
		if all {
			p.Draining = slices.Concat(p.Ranges[subnet.IPv4], p.Ranges[subnet.IPv6])
		}
	}
	return p, nil
}

// name returns a pool's name. It must be a word, because metrics and tables show it.
func name(v value, fields map[string]value) (string, error) {
	of, is := fields["name"]
	if !is {
		return "", v.wrong("has no name; give it one")
	}
	text, err := of.text()
	if err == nil && !isWord(text) {
		err = of.wrong("%.80q; use up to 63 letters, digits, dashes, dots and underscores", text)
	}
	return text, err
}

// family reads the ranges of a family into p.
func family(p *ipam.Pool, f subnet.Family, v value) error {
	fields, err := v.fields(familyFields...)
	if err != nil {
		return err
	}
	p.Bits[f] = defaultBits[f]
	if of, is := fields["blockBits"]; is {
		if p.Bits[f], err = of.whole(1, f.Bits()); err != nil {
			return err
		}
	}
	of, is := fields["ranges"]
	if !is {
		return v.wrong("has no ranges; add ranges: [%s]", example(f))
	}
	if p.Ranges[f], err = networks(of, f); err != nil {
		return err
	}
	if len(p.Ranges[f]) == 0 {
		return of.wrong("has no range; add one like %s", example(f))
	}
	if of, is = fields["drainingRanges"]; !is {
		return nil
	}
	draining, err := networks(of, f)
	if err != nil {
		return err
	}
	for i, d := range draining {
		if !slices.ContainsFunc(p.Ranges[f], func(r netip.Prefix) bool { return r.Bits() <= d.Bits() && r.Overlaps(d) }) {
			return of.wrong("%s is not part of a range of the pool; correct or remove it", draining[i])
		}
	}
	p.Draining = append(p.Draining, draining...)
	return nil
}

func example(f subnet.Family) string {
	if f == subnet.IPv4 {
		return "10.244.0.0/16"
	}
	return "fd00:10:244::/48"
}

// networks returns networks of a family.
func networks(v value, f subnet.Family) (all []netip.Prefix, err error) {
	items, err := v.items(mostRanges)
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		text, err := item.text()
		if err != nil {
			return nil, err
		}
		n, err := netip.ParsePrefix(text)
		switch {
		case err != nil || n.Addr().Is4In6():
			return nil, item.wrong("%.60q is not a range in CIDR notation; write one like %s", text, example(f))
		case subnet.FamilyOf(n.Addr()) != f:
			return nil, item.wrong("%s is not an %s range; move it to the other family", n, f)
		case n != n.Masked():
			return nil, item.wrong("%s has host bits; write %s", n, n.Masked())
		}
		all = append(all, n)
	}
	return all, nil
}

// apart refuses ranges that overlap: their addresses would count twice.
func apart(pools []ipam.Pool) error {
	type owned struct {
		network netip.Prefix
		pool    string
	}
	var all []owned
	for _, p := range pools {
		for _, ranges := range p.Ranges {
			for _, r := range ranges {
				all = append(all, owned{r, p.Name})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b owned) int { return a.network.Compare(b.network) })
	for i := 1; i < len(all); i++ {
		if a, b := all[i-1], all[i]; a.network.Overlaps(b.network) {
			return fmt.Errorf("range %s of pool %s overlaps %s of pool %s; give each address to one pool", b.network, b.pool, a.network, a.pool)
		}
	}
	return nil
}

// secondDocument returns the line at which a second YAML document begins, or 0. The
// decoder would silently ignore that document.
func secondDocument(text []byte) int {
	begun, n := false, 0
	for line := range bytes.Lines(text) {
		n++
		line = bytes.TrimRight(line, " \t\r\n")
		marks := bytes.Equal(line, []byte("---")) || bytes.HasPrefix(line, []byte("--- "))
		if marks && begun {
			return n
		}
		// Directives and comments may come before the first document.
		begun = begun || len(line) > 0 && (marks && len(line) > 3 || !marks && line[0] != '#' && line[0] != '%')
	}
	return 0
}
