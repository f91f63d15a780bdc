package etcd

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"google.golang.org/grpc/status"
)

// noAnswer is the kind of all that may be over by itself, however far it came.
const noAnswer = "no answer in time"

// reason is why etcd cannot be used, and what to do.
type reason struct {
	sign string // in the error's text
	hint string
	kind string // the hint where it is empty
}

// reasons name errors for people; the first whose sign is in the error's text holds.
type reasons []reason

// reasonsFor returns the reasons, which call the settings by names.
func reasonsFor(names Names) reasons {
	return reasons{
		{sign: errSilent.Error(), kind: noAnswer, hint: "etcd takes connections but does not answer: it is frozen or overloaded; restart it, or look at its host"},
		{sign: errPlain.Error(), hint: "what listens at " + names.Endpoints + " does not speak TLS; use http:// there, or give etcd a certificate"},
		{sign: errTLS.Error(), hint: "etcd ends connections without TLS; use https:// in " + names.Endpoints},
		{sign: errHangsUp.Error(), hint: "etcd ends the connection without a reason; its own log has it"},
		{sign: "certificate signed by unknown authority", hint: "no authority in " + names.CAFile + " has signed etcd's certificate; name the file of the one that has"},
		{sign: "x509: certificate has expired", hint: "etcd's certificate has expired or is not valid yet; renew it, or set this host's clock"},
		{sign: "x509: certificate is valid for", hint: "etcd's certificate is for another name; use that name in " + names.Endpoints + ", or issue one for this"},
		{sign: "x509: certificate is not valid for any names", hint: "etcd's certificate is for another name; issue one for the host in " + names.Endpoints},
		{sign: "x509: cannot validate certificate for", hint: "etcd's certificate is for another name; issue one for the host in " + names.Endpoints},
		{sign: "x509:", hint: "etcd's certificate is not valid; issue another"},
		{sign: "tls: certificate required", hint: "etcd wants a client certificate; set " + names.CertFile + " and " + names.KeyFile},
		{sign: "tls: expired certificate", hint: "etcd rejects the certificate in " + names.CertFile + ": it has expired; renew it, or set the clock of etcd's host"},
		{sign: "remote error: tls", hint: "etcd rejects the certificate in " + names.CertFile + "; use one that etcd's authority (--trusted-ca-file) has signed"},
		{sign: "database space exceeded", hint: full},
		{sign: "authentication failed", hint: "etcd refuses the name or the password of " + names.Username},
		{sign: "user name is empty", hint: "etcd wants a user and a password; set " + names.Username + " and " + names.PasswordFile},
		{sign: "connect: permission denied", hint: "this process may not open the unix socket in " + names.Endpoints},
		{sign: "permission denied", hint: "the etcd user may not read and write the network's keys; grant it readwrite on the prefix"},
		{sign: "no leader", hint: "etcd's members have no leader; more than half of them must run and reach each other"},
		{sign: "connection refused", hint: "nothing listens at " + names.Endpoints + "; start etcd, or correct the URL"},
		{sign: "no route to host", hint: "no route leads to " + names.Endpoints + "; start its host, or correct the URL"},
		{sign: "network is unreachable", hint: "no route leads to " + names.Endpoints + "; correct this host's routes, or the URL"},
		{sign: "no such host", hint: "DNS does not know the name in " + names.Endpoints + "; correct the URL, or the name server"},
		{sign: "i/o timeout", kind: noAnswer, hint: "no packet comes back from " + names.Endpoints + ": its host is down, or a firewall drops the packets"},
		{sign: "unexpected HTTP status code", hint: "what listens at " + names.Endpoints + " is not etcd; correct the URL"},
		{sign: "context deadline exceeded", hint: noAnswer},
		{sign: "keepalive ping failed", hint: noAnswer},
		{sign: "connection reset", hint: noAnswer},
		{sign: "broken pipe", hint: noAnswer},
	}
}

// full is for an etcd with the NOSPACE alarm.
const full = "etcd's database is full, and it refuses writes until you make room: " +
	"etcdctl compact REVISION (etcdctl endpoint status -w json shows it), etcdctl defrag --cluster, etcdctl alarm disarm"

// explain returns the kind of err, and err in words.
func (r reasons) explain(err error) (kind, words string) {
	text := plain(err)
	for _, known := range r {
		if !strings.Contains(err.Error(), known.sign) {
			continue
		}
		if words = known.hint; text != "" && text != words {
			words += " (" + text + ")"
		}
		if kind = known.kind; kind == "" {
			kind = known.hint
		}
		return kind, words
	}
	return "", text
}

// What gRPC and this package wrap around the text that says something. A quoted
// text is Go syntax.
var (
	wrapping = regexp.MustCompile(`^(context deadline exceeded: |rpc error: code = \w+ desc = |latest balancer error: |connection error: desc = |transport: |Error while dialing: |authentication handshake failed: |error reading server preface: |error reading from server: )`)
	idle     = regexp.MustCompile(`^(received )?context (deadline exceeded|error) while waiting for .*$`)
)

// plain returns err's text without what gRPC wraps around it.
func plain(err error) string {
	text := err.Error()
	if s, ok := status.FromError(err); ok && !errors.Is(err, context.DeadlineExceeded) {
		text = s.Message()
	}
	for {
		before := text
		text = wrapping.ReplaceAllString(text, "")
		if strings.HasPrefix(text, `"`) && strings.HasSuffix(text, `"`) && len(text) > 1 {
			text = strings.ReplaceAll(text[1:len(text)-1], `\"`, `"`)
		}
		if text == before {
			break
		}
	}
	text, _, _ = strings.Cut(text, "; transport: ") // what gRPC makes of a foreign answer
	if text == context.DeadlineExceeded.Error() || idle.MatchString(text) {
		return ""
	}
	return text
}
