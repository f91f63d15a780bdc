package etcd

import "strings"

const noAnswer = "no answer in time"

const hangsUp = "etcd closes the connection; it may want another certificate than --etcd-certfile, or only one side uses TLS"

// reasons explain common errors: a sign in the error's text, and a hint.
var reasons = []struct{ sign, hint string }{
	{"certificate signed by unknown authority", "no authority in --etcd-cafile has signed etcd's certificate"},
	{"certificate has expired", "a certificate has expired or is not valid yet, or the clock is wrong"},
	{"x509:", "etcd's certificate is not valid"},
	{"tls: certificate required", "etcd wants a client certificate; set --etcd-certfile and --etcd-keyfile"},
	{"remote error: tls", "etcd rejects the certificate in --etcd-certfile"},
	{"broken pipe", hangsUp},
	{"connection reset", hangsUp},
	{"error reading server preface", hangsUp},
	{"authentication failed", "etcd refuses the name or the password of --etcd-username"},
	{"user name is empty", "etcd wants a user and a password; set --etcd-username and --etcd-password-file"},
	{"connect: permission denied", "tulled may not open the unix socket in --etcd-endpoints"},
	{"permission denied", "the etcd user may not read and write the network's keys; grant it readwrite on the prefix"},
	{"no leader", "etcd's members have no leader; more than half of them must run and reach each other"},
	{"connection refused", "nothing listens at --etcd-endpoints"},
	{"context deadline exceeded", noAnswer},
	{"keepalive ping failed", noAnswer},
}

// explain returns the kind of err, and err in words.
func explain(err error) (kind, words string) {
	text := err.Error()
	for _, known := range reasons {
		if strings.Contains(text, known.sign) {
			return known.hint, known.hint + " (" + text + ")"
		}
	}
	return "", text
}
