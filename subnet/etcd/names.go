package etcd

import "cmp"

// Names are what errors call the settings of Options, like --etcd-cafile. Plain words
// stand for an empty one.
type Names struct {
	Endpoints, CertFile, KeyFile, CAFile, Username, Password, PasswordFile string
	// Address is what sets the address that a node publishes.
	Address string
}

// orWords returns n without empty names.
func (n Names) orWords() Names {
	return Names{
		Endpoints: cmp.Or(n.Endpoints, "the endpoints"),
		CertFile:  cmp.Or(n.CertFile, "the certificate file"), KeyFile: cmp.Or(n.KeyFile, "the key file"), CAFile: cmp.Or(n.CAFile, "the CA file"),
		Username: cmp.Or(n.Username, "the user name"), Password: cmp.Or(n.Password, "the password"), PasswordFile: cmp.Or(n.PasswordFile, "the password file"),
		Address: cmp.Or(n.Address, "its public IP"),
	}
}
