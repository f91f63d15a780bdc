package options

import "sync"

// Program is the program whose flags the table has.
const Program = "tulled"

// Name returns a flag as it is on a command line, like --iface for "iface". It panics
// without such a flag.
func Name(flag string) string {
	written, ok := names()[flag]
	if !ok {
		panic(Program + " has no flag " + flag)
	}
	return written
}

// names maps each flag's name to how it is written. To make the table for each name
// would cost a start 0.3 MB of garbage.
var names = sync.OnceValue(func() map[string]string {
	all := make(map[string]string)
	for _, f := range table(new(Options), nil) {
		if _, seen := all[f.Name]; !seen {
			all[f.Name] = f.Written()
		}
	}
	return all
})
