package awstest

import (
	"net/http"
	"strings"
	"time"
)

// These are the names of services in signatures.
const (
	ec2Service    = "ec2"
	elbService    = "elasticloadbalancing"
	stsService    = "sts"
	quotasService = "servicequotas"
)

// Key is an access key that the server knows.
type Key struct {
	ID, Secret string
	Account    string // 12 digits
	User       string // the name in its ARN
	// Token is the session token of a temporary key, and Expires is when it expires.
	Token   string
	Expires time.Time
	role    string // the assumed role, and the session's name
	// Refused, if set, is the answer to every request of the key: AuthFailure for a revoked
	// key, or ExpiredToken.
	Refused *Error
	// Denied are actions that the key's policies do not allow.
	Denied map[string]bool
}

func (k *Key) arn() string {
	if k.role != "" {
		return "arn:aws:sts::" + k.Account + ":assumed-role/" + k.role
	}
	return "arn:aws:iam::" + k.Account + ":user/" + k.User
}

// scope is what a signature names: the key, the region and the service.
type scope struct{ key, region, service, token string }

// signed returns the scope of a request's signature. The signature itself is not
// verified: the server must distinguish keys, not resist an attack.
func signed(r *http.Request) (scope, *Error) {
	const algorithm = "AWS4-HMAC-SHA256 "
	header, ok := strings.CutPrefix(r.Header.Get("Authorization"), algorithm)
	if !ok {
		return scope{}, &Error{403, "MissingAuthenticationToken", "Missing Authentication Token"}
	}
	fields := make(map[string]string)
	for part := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		fields[name] = value
	}
	path := strings.Split(fields["Credential"], "/")
	if len(path) != 5 || path[0] == "" || path[2] == "" || path[4] != "aws4_request" || fields["SignedHeaders"] == "" || len(fields["Signature"]) != 64 {
		return scope{}, bad("IncompleteSignature", "The request signature does not conform to AWS standards.")
	}
	return scope{path[0], path[2], path[3], r.Header.Get("X-Amz-Security-Token")}, nil
}

// authenticate returns the key that signed a request.
func (s *Server) authenticate(by scope) (*Key, *Error) {
	key := s.keys[by.key]
	if by.key == "" {
		return &Key{Account: Account}, nil // an action that needs no signature
	}
	if key != nil && key.Token != by.token {
		key = nil
	}
	switch {
	case key == nil && by.service == ec2Service:
		return nil, AuthFailure
	case key == nil:
		return nil, &Error{403, "InvalidClientTokenId", "The security token included in the request is invalid."}
	case !key.Expires.IsZero() && s.now().After(key.Expires) && by.service == ec2Service:
		return nil, bad("RequestExpired", "Request has expired.")
	case !key.Expires.IsZero() && s.now().After(key.Expires):
		return nil, &Error{403, "ExpiredToken", "The security token included in the request is expired"}
	case key.Refused != nil:
		return nil, key.Refused
	}
	return key, nil
}
