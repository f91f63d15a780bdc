package main

import (
	"os"
	"path/filepath"

	"github.com/tulle-net/tulle/pkg/flags"
	"github.com/tulle-net/tulle/pkg/kube"
)

// googleFile is the variable that names the file of Google's credentials.
const googleFile = "GOOGLE_APPLICATION_CREDENTIALS"

// awsFiles are the variables that name the files of AWS's SDK which may hold keys, and
// where the files are in the home folder without them.
var awsFiles = [][2]string{{"AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"}, {"AWS_CONFIG_FILE", ".aws/config"}}

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
	if s.cloud.provider == onAWS {
		for _, file := range awsFiles {
			path := os.Getenv(file[0])
			if home, err := os.UserHomeDir(); path == "" && err == nil {
				path = filepath.Join(home, file[1])
			}
			warn(file[0], path)
		}
	}
	return warnings
}
