package etcd

import "strings"

const noAnswer = "no answer in time"

const hangsUp = "etcd hangs up; perhaps it wants another certificate than --etcd-certfile, or TLS where there is none, or the other way about"

// reasons are what errors have in common, in words for who has to mend it.
var reasons = []struct{ sign, hint string }{
	{"certificate signed by unknown authority", "etcd's certificate is signed by none of the authorities in --etcd-cafile"},
	{"certificate has expired", "a certificate has expired or is not valid yet, or the clock is wrong"},
	{"x509:", "etcd's certificate is not believed"},
	{"tls: certificate required", "etcd wants a client certificate; give --etcd-certfile and --etcd-keyfile"},
	{"remote error: tls", "etcd does not believe the certificate in --etcd-certfile"},
	{"broken pipe", hangsUp},
	{"connection reset", hangsUp},
	{"error reading server preface", hangsUp},
	{"authentication failed", "etcd refuses the name or the password of --etcd-username"},
	{"user name is empty", "etcd wants a name and a password; give --etcd-username and --etcd-password-file"},
	{"connect: permission denied", "tulled may not open the unix socket in --etcd-endpoints"},
	{"permission denied", "the etcd user may not read and write the network's keys; grant it readwrite on the prefix"},
	{"no leader", "etcd's members have no leader; more than half of them must run and reach each other"},
	{"connection refused", "nothing listens at --etcd-endpoints"},
	{"context deadline exceeded", noAnswer},
	{"keepalive ping failed", noAnswer},
}

// explain is err in words, and what kind it is.
func explain(err error) (kind, words string) {
	text := err.Error()
	for _, known := range reasons {
		if strings.Contains(text, known.sign) {
			return known.hint, known.hint + " (" + text + ")"
		}
	}
	return "", text
}
