package command

import (
	"fmt"
	"io"

	"github.com/tulle-net/tulle/pkg/cniplugins"
	"github.com/tulle-net/tulle/pkg/options"
)

// installCNI puts CNI plugins where runtimes look for them, and says what it did.
func installCNI(p options.Plugins, out io.Writer) error {
	plugins, err := cniplugins.Install(p.From, p.To)
	for _, p := range plugins {
		fmt.Fprintf(out, "%s %s\n", p.Outcome, p.Path)
	}
	return err
}
