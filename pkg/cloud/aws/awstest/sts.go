package awstest

import (
	"regexp"
	"strings"
	"time"
)

// getCallerIdentity answers with the identity of the key that signed the request.
func getCallerIdentity(r *request) error {
	r.x.text("Arn", r.by.arn())
	r.x.text("UserId", "AIDA"+strings.TrimPrefix(r.by.ID, "AKIA"))
	r.x.text("Account", r.by.Account)
	return nil
}

var roleARN = regexp.MustCompile(`^arn:aws:iam::([0-9]{12}):role/(?:[\w+=,.@/-]*/)?([\w+=,.@-]+)$`)

// assumeRole answers with a temporary key of a role. Every role can be assumed.
func assumeRole(r *request) error {
	arn, err := r.form.want("RoleArn")
	if err != nil {
		return err
	}
	session, err := r.form.want("RoleSessionName")
	if err != nil {
		return err
	}
	web := r.action == "AssumeRoleWithWebIdentity"
	if web && r.form.text("WebIdentityToken") == "" {
		return bad("InvalidIdentityToken", "No OpenIDConnect provider found in your account for the token")
	}
	role := roleARN.FindStringSubmatch(arn)
	if role == nil {
		return bad("ValidationError", "%s is invalid", arn)
	}
	seconds, err := r.form.number("DurationSeconds", 3600)
	if err != nil {
		return err
	}
	if seconds < 900 || seconds > 43200 {
		return bad("ValidationError", "The requested DurationSeconds %d is not between 900 and 43200", seconds)
	}
	id := strings.ToUpper(r.hex())
	k := &Key{
		ID: "ASIA" + id[1:], Secret: "not-a-secret", Account: role[1], Token: "token-" + r.hex(),
		Expires: r.now.Add(time.Duration(seconds) * time.Second), role: role[2] + "/" + session,
	}
	r.s.keys[k.ID] = k
	r.x.within("Credentials", func() {
		r.x.text("AccessKeyId", k.ID)
		r.x.text("SecretAccessKey", k.Secret)
		r.x.text("SessionToken", k.Token)
		r.x.moment("Expiration", k.Expires)
	})
	r.x.within("AssumedRoleUser", func() {
		r.x.text("AssumedRoleId", "AROA"+id[1:]+":"+session)
		r.x.text("Arn", k.arn())
	})
	if web {
		r.x.text("SubjectFromWebIdentityToken", "system:serviceaccount:kube-system:tulle")
	}
	return nil
}
