package main

import (
	"os"

	"github.com/tulle-net/tulle/pkg/flags"
	"github.com/tulle-net/tulle/pkg/kube"
)

// googleFile is the variable that names the file of Google's credentials.
const googleFile = "GOOGLE_APPLICATION_CREDENTIALS"

// exposed returns warnings about files with secrets that every user of this host may
// read or write.
func (s settings) exposed() (warnings []string) {
	warn := func(setting, path string) {
		if w := flags.Exposed(setting, path); w != "" {
			warnings = append(warnings, w)
		}
	}
	if s.kubeconfig != "" {
		warn("--kubeconfig", s.kubeconfig)
		for _, path := range kube.SecretFiles(s.kubeconfig) {
			warn("--kubeconfig", path)
		}
	}
	warn("--etcd-keyfile", s.etcd.KeyFile)
	warn("--etcd-password-file", s.etcd.PasswordFile)
	warn(googleFile, os.Getenv(googleFile))
	if secrets := s.provider().secrets; secrets != nil {
		for _, file := range secrets(&s) {
			warn(file[0], file[1])
		}
	}
	return warnings
}
