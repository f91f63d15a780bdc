package awstest

import "strings"

// getCallerIdentity answers with whose key signed the request.
func getCallerIdentity(r *request) error {
	r.x.text("Arn", r.by.arn())
	r.x.text("UserId", "AIDA"+strings.TrimPrefix(r.by.ID, "AKIA"))
	r.x.text("Account", r.by.Account)
	return nil
}
