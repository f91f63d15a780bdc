package etcd

import "fmt"

// Check returns an error if one option conflicts with another, or needs another that is
// not set. It reads no file.
func (o Options) Check() error {
	n := o.Names.orWords()
	switch {
	case o.Password != "" && o.PasswordFile != "":
		return fmt.Errorf("%s: conflicts with %s; keep one of the two, preferably the file", n.Password, n.PasswordFile)
	case o.Password != "" && o.Username == "":
		return needs(n.Password, n.Username)
	case o.PasswordFile != "" && o.Username == "":
		return needs(n.PasswordFile, n.Username)
	case o.Username != "" && o.Password == "" && o.PasswordFile == "":
		return needs(n.Username, n.PasswordFile)
	case o.CertFile != "" && o.KeyFile == "":
		return needs(n.CertFile, n.KeyFile)
	case o.KeyFile != "" && o.CertFile == "":
		return needs(n.KeyFile, n.CertFile)
	}
	return nil
}

func needs(name, other string) error { return fmt.Errorf("%s: needs %s", name, other) }
