package options

import (
	"github.com/tulle-net/tulle/pkg/flags"
	"github.com/tulle-net/tulle/pkg/kube"
)

// Exposed returns warnings about files and folders with secrets that every user of
// this host may read or write.
func (o Options) Exposed() (warnings []string) {
	type secret struct{ name, path string }
	secrets := []secret{
		{"etcd-keyfile", o.Etcd.KeyFile}, {"etcd-password-file", o.Etcd.PasswordFile},
		{"kubeconfig-file", o.Kube.Kubeconfig},
	}
	// The kubelet creates a pod's folder, which every user may read. The files in it are
	// the daemon's own.
	if inPod := o.Kube.On && o.Kube.Kubeconfig == "" && o.Kube.Server == ""; !inPod {
		secrets = append(secrets, secret{"state-dir", o.StateDir})
	}
	if o.Kube.Kubeconfig != "" {
		for _, path := range kube.SecretFiles(o.Kube.Kubeconfig) {
			secrets = append(secrets, secret{"kubeconfig-file", path})
		}
	}
	for _, s := range secrets {
		if w := flags.Exposed(Name(s.name), s.path); w != "" {
			warnings = append(warnings, w)
		}
	}
	return warnings
}
