package options

// Name returns a flag as it is on a command line, like --iface for "iface". It panics
// without such a flag.
func Name(flag string) string {
	for _, f := range table(new(Options), nil) {
		if f.Name == flag {
			return f.Written()
		}
	}
	panic("tulled has no flag " + flag)
}
