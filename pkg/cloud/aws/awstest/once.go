package awstest

// remembered is the answer to a request with a client token.
type remembered struct {
	parameters string
	body       []byte
}

// once carries out a request, or repeats the answer to one with the same client token.
func (r *request) once(run func(*request) error) error {
	token := r.form.text("ClientToken")
	if token == "" {
		return run(r)
	}
	if len(token) > 64 {
		return bad("InvalidParameterValue", "The client token has %d characters, more than 64", len(token))
	}
	key, parameters := r.action+" "+token, r.form.print("ClientToken")
	if before, ok := r.once_[key]; ok {
		if before.parameters != parameters {
			return bad("IdempotentParameterMismatch", "The client token you have provided is associated with a resource that is already deleted or has other parameters.")
		}
		r.x.b = append(r.x.b, before.body...)
		return nil
	}
	if err := run(r); err != nil {
		return err
	}
	r.once_[key] = remembered{parameters, append([]byte(nil), r.x.b...)}
	return nil
}
