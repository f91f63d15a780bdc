package options

// Program is the program whose flags the table has.
const Program = "tulled"

// Name returns a flag as it is on a command line, like --iface for "iface". It panics
// without such a flag.
func Name(flag string) string {
	for _, f := range table(new(Options), nil) {
		if f.Name == flag {
			return f.Written()
		}
	}
	panic(Program + " has no flag " + flag)
}
