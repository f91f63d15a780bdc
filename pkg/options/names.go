package options

// Name returns a flag as a command line has it, like --iface for "iface". It panics
// without such a flag.
func Name(flag string) string {
	for _, f := range table(new(Options), nil) {
		if f.Name == flag {
			return f.Written()
		}
	}
	panic("tulled has no flag " + flag)
}
