package options

import "github.com/tulle-net/tulle/pkg/flags"

// Exposed returns warnings about files and folders with secrets that every user of
// this host may read or write.
func (o Options) Exposed() (warnings []string) {
	for _, s := range []struct{ name, path string }{
		{"etcd-keyfile", o.Etcd.KeyFile}, {"etcd-password-file", o.Etcd.PasswordFile},
		{"kubeconfig-file", o.Kube.Kubeconfig}, {"state-dir", o.StateDir},
	} {
		if w := flags.Exposed(Name(s.name), s.path); w != "" {
			warnings = append(warnings, w)
		}
	}
	return warnings
}
