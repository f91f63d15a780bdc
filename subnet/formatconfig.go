package subnet

import "fmt"

// FormatConfig writes c, as JSON on one line, so that ParseConfig reads the
// same again; c is one that ParseConfig returned. Every default is spelled out,
// so that it stays what it is wherever it is read; what is left open has none.
// It holds what Backend.Raw
// holds, which may be secrets: it is for a file that nobody else may read, and
// for no log.
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
		// As it is: encoding/json would escape what a person wrote plainly.
		text = fmt.Appendf(text, `,"Backend":%s`, c.Backend.Raw)
	}
	return append(text, '}')
}
