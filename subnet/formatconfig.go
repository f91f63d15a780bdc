package subnet

import "fmt"

// FormatConfig writes c, which ParseConfig returned, as JSON on one line. ParseConfig
// reads the same config from it. Defaults are written out, so that every reader has
// the same values; an unset Choice is left out.
//
// The result contains Backend.Raw, which may hold secrets. Write it to a private file
// only, and to no log.
func FormatConfig(c Config) []byte {
	text := fmt.Appendf(nil, `{"EnableIPv4":%t,"EnableIPv6":%t`, c.Pools[IPv4].IsValid(), c.Pools[IPv6].IsValid())
	if c.EnableNFTables != Unset {
		text = fmt.Appendf(text, `,"EnableNFTables":%s`, c.EnableNFTables)
	}
	for f, p := range c.Pools {
		if p.IsValid() {
			text = fmt.Appendf(text, `,"%[1]sNetwork":"%[2]s","%[1]sSubnetLen":%[3]d,"%[1]sSubnetMin":"%[4]s","%[1]sSubnetMax":"%[5]s"`,
				poolTerms[f].prefix, p.Network, p.SubnetLen, p.Min, p.Max)
		}
	}
	if c.Backend.Raw != "" {
		// Unchanged: encoding/json would escape characters that a person wrote
		// plainly.
		text = fmt.Appendf(text, `,"Backend":%s`, c.Backend.Raw)
	}
	return append(text, '}')
}
