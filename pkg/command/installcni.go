package command

import (
	"fmt"
	"io"

	"github.com/tulle-net/tulle/pkg/answer"
	"github.com/tulle-net/tulle/pkg/cniplugins"
	"github.com/tulle-net/tulle/pkg/options"
)

// pluginsAnswer is the result of an installation of CNI plugins.
type pluginsAnswer struct {
	Plugins []pluginAnswer `json:"plugins"`
}

// pluginAnswer is the result for one plugin.
type pluginAnswer struct {
	Path    string             `json:"path"`
	Outcome cniplugins.Outcome `json:"outcome"`
}

// installCNI installs CNI plugins where runtimes look for them, and lists what it
// did.
func installCNI(o options.Options, out io.Writer) error {
	plugins, err := cniplugins.Install(o.Plugins.From, o.Plugins.To)
	a := pluginsAnswer{make([]pluginAnswer, 0, len(plugins))}
	for _, p := range plugins {
		a.Plugins = append(a.Plugins, pluginAnswer{p.Path, p.Outcome})
	}
	written := answer.Write(o.Output, out, "plugins", a, func() error {
		for _, p := range a.Plugins {
			outcome := string(p.Outcome)
			if p.Outcome == cniplugins.Left {
				outcome = "skipped (foreign)"
			}
			fmt.Fprintf(out, "%s %s\n", outcome, p.Path)
		}
		return nil
	})
	if err == nil {
		err = written
	}
	return err
}
