package options

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/flags"
)

// commands returns every command, in the order of the help. The commands set o.
func commands(o *Options) []flags.Command {
	to := func(c Command) func(string) error {
		return func(string) error { o.Command = c; return nil }
	}
	const ask, log = "status-socket", logging
	files := []string{"subnet-file", "cni-conf-file", "state-dir"}
	stores := []string{store, "etcd-embedded", "etcd-listen", kubernetes, log}
	all := []flags.Command{
		{Value: "[flags]", About: "run the daemon"},
		{Name: "check-config", Value: "[FILE]", About: "explain a network config, or what is wrong with it", Set: o.checkConfig},
		{Name: "leases", About: "list the leases in the store, and why it rejects some", Uses: stores, Set: to(Leases)},
		{Name: "status", About: "show the state of this host's tulled; exit with 1 if it is not ready", Uses: []string{ask, log}, Set: to(Status)},
		{Name: "peers", Value: "[MATCH]", About: "list the other nodes as this host sees them, or those that match", Uses: []string{ask, log}, Set: o.peers},
		{Name: "explain", Value: "IP", About: "show who owns an address, and how the kernel reaches it", Uses: []string{ask, log}, Set: o.explain},
		{Name: "bugreport", Value: "[FILE]", About: "collect what helps to find a fault in one archive", Uses: append(append([]string{ask}, files[:2]...), stores...), Set: o.bugReport},
		{Name: "cleanup", About: "remove everything that tulled created on this host", Uses: append([]string{ask, log}, files...), Set: to(CleanUp)},
		{Name: "rotate-key", About: "replace this host's WireGuard key while packets flow", Uses: []string{"state-dir", ask, log}, Set: to(RotateKey)},
		{Name: "install-cni", Value: "[DIR]", About: "install CNI plugins in /opt/cni/bin, or DIR; keep foreign ones", Set: o.installCNI},
		{Name: "version", About: "print the version", Set: to(ShowVersion)},
		{Name: "man", About: "print the manual page", Set: to(ShowManPage)},
		{Name: "completion", Value: "SHELL", About: "print completions for bash, zsh or fish", Choices: flags.Shells(), Set: o.completion},
	}
	help := flags.Command{Name: "help", Value: "[COMMAND]", About: "explain a command and its flags", Set: o.help}
	for _, c := range all[1:] {
		help.Choices = append(help.Choices, c.Name)
	}
	return append(all, help)
}

func (o *Options) help(topic string) error {
	o.Command, o.Topic = ShowHelp, topic
	return nil
}

func (o *Options) peers(match string) error {
	o.Command, o.Peers.Match = Peers, match
	return nil
}

func (o *Options) checkConfig(file string) error {
	o.Command = CheckConfig
	if file != "-" {
		o.ConfigFile = file
	}
	if strings.HasPrefix(o.ConfigFile, "-") {
		return &flags.Error{Why: "the name of the file to check begins with a dash", Fix: "write ./ before it"}
	}
	return nil
}

func (o *Options) bugReport(file string) error {
	o.Command, o.ReportFile = BugReport, file
	return nil
}

func (o *Options) installCNI(folder string) (err error) {
	o.Command, o.Plugins.To = InstallCNI, "/opt/cni/bin"
	if folder != "" {
		o.Plugins.To, err = flags.Folder(folder)
	}
	return flags.At("install-cni", err, false)
}

func (o *Options) explain(address string) (err error) {
	o.Command = Explain
	const fix = "for example: tulled explain 10.5.34.2"
	if address == "" {
		return &flags.Error{Why: "explain needs an IP address", Fix: fix}
	}
	if o.Address, err = netip.ParseAddr(address); err != nil || o.Address.Zone() != "" {
		return &flags.Error{Why: fmt.Sprintf("%.60q is not an IP address", address), Fix: fix}
	}
	o.Address = o.Address.Unmap()
	return nil
}

func (o *Options) completion(shell string) error {
	if !slices.Contains(flags.Shells(), shell) {
		return &flags.Error{Why: "completion needs a shell", Fix: "use one of " + strings.Join(flags.Shells(), ", ")}
	}
	o.Command, o.Shell = ShowCompletion, shell
	return nil
}
