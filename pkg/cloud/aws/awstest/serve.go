package awstest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// action is an action of an API.
type action struct {
	reads bool // changes nothing
	run   func(*request) error
}

// request is a call, for its action. The server is locked.
type request struct {
	*account
	by     *Key
	action string
	form   *form
	x      *answer
	now    time.Time
	set    Settings
}

func escape(text string) string { return url.QueryEscape(text) }

// namespaces are the XML namespaces of the services.
var namespaces = map[string]string{
	ec2Service: "http://ec2.amazonaws.com/doc/2016-11-15/",
	elbService: "http://elasticloadbalancing.amazonaws.com/doc/2015-12-01/",
	stsService: "https://sts.amazonaws.com/doc/2011-06-15/",
}

// run carries out an action and returns its XML without the request ID.
func (s *Server) run(o operation, a action, at place, by *Key, f *form) ([]byte, error) {
	r := &request{account: s.account(at), by: by, action: o.name, form: f, x: &answer{}, set: s.settings}
	r.now = s.now()
	dry, err := f.truth("DryRun", false)
	if err != nil {
		return nil, err
	}
	if dry && o.service == ec2Service {
		return nil, &Error{412, "DryRunOperation", "Request would have succeeded, but DryRun flag is set."}
	}
	if err := r.once(a.run); err != nil {
		return nil, err
	}
	return r.x.b, nil
}

// envelope wraps what an action wrote.
func envelope(service, action, id string, body []byte) []byte {
	if service == quotasService {
		return body
	}
	x := &answer{b: make([]byte, 0, len(body)+256)}
	x.b = append(x.b, `<?xml version="1.0" encoding="UTF-8"?>`+"\n"...)
	x.b = fmt.Appendf(x.b, `<%sResponse xmlns="%s">`, action, namespaces[service])
	if service == ec2Service {
		x.always("requestId", id)
		x.b = append(x.b, body...)
	} else {
		x.within(action+"Result", func() { x.b = append(x.b, body...) })
		x.within("ResponseMetadata", func() { x.always("RequestId", id) })
	}
	x.close(action + "Response")
	return x.b
}

// ServeHTTP serves one call.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	started := time.Now()
	call := &Call{}
	s.mu.Lock()
	s.requests++
	call.ID = fmt.Sprintf("%08x-0000-4000-8000-%012x", s.requests>>32, s.requests)
	call.At = s.now()
	s.mu.Unlock()

	by, f, wrong := read(w, r)
	call.Service, call.Region, call.Key = by.service, by.region, by.key
	if f != nil {
		call.Action, call.form = f.text("Action"), f
	}
	var text []byte
	var effect Fault
	if wrong == nil {
		text, effect, wrong = s.serve(r.Context(), by, call)
	}
	status := http.StatusOK
	if wrong != nil {
		status, text = wrong.Status, wrong.write(by.service, call.ID)
		call.Code = wrong.Code
	}
	call.Status = status
	call.Took = time.Since(started)
	switch {
	case effect.Hang:
		call.Status = 0
		s.keep(call)
		s.hang(r.Context())
		panic(http.ErrAbortHandler)
	case effect.Reset, effect.Lose:
		call.Status = 0
		s.keep(call)
		panic(http.ErrAbortHandler)
	}
	// Count the call before sending the answer, so that a client with the answer finds its
	// call counted.
	s.keep(call)
	kind := "text/xml;charset=UTF-8"
	if call.Service == quotasService {
		kind = "application/x-amz-json-1.1"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("X-Amzn-Requestid", call.ID)
	w.Header().Set("Content-Length", fmt.Sprint(len(text)))
	w.WriteHeader(status)
	if effect.Half {
		w.Write(text[:len(text)/2])
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	w.Write(text)
}

// read reads a request's parameters, and the key that signed it.
func read(w http.ResponseWriter, r *http.Request) (scope, *form, *Error) {
	by, unsigned := signed(r)
	if unsigned != nil {
		by.service = stsService
	}
	if r.Method != http.MethodPost || r.URL.Path != "/" {
		return by, nil, bad("InvalidRequest", "The request must be a POST of /, and is a %s of %s", r.Method, r.URL.Path)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return by, nil, bad("RequestEntityTooLarge", "The request has more than %d bytes", maxBody)
	}
	if err != nil {
		return by, nil, bad("InvalidRequest", "The request could not be read: %v", err)
	}
	if by.service == quotasService {
		f, wrong := parseJSON(r.Header.Get("X-Amz-Target"), body)
		return by, f, wrong
	}
	f, wrong := parseForm(string(body))
	if wrong == nil && f.text("Action") != "AssumeRoleWithWebIdentity" {
		wrong = unsigned
	}
	return by, f, wrong
}

// serve carries out a call, unless the key, a fault or a limit prevents it.
func (s *Server) serve(ctx context.Context, by scope, call *Call) ([]byte, Fault, *Error) {
	s.mu.Lock()
	key, wrong := s.authenticate(by)
	o := operation{by.service, call.Action}
	a, known := actions[o]
	var effect Fault
	if wrong == nil {
		effect = s.effect(call)
		switch {
		case call.Action == "":
			wrong = bad("MissingAction", "The request must contain the parameter Action")
		case !known:
			wrong = bad("InvalidAction", "The action %s is not valid for this web service.", call.Action)
		case effect.Reset || effect.Hang && !effect.Done:
		case effect.Answer != nil:
			wrong = effect.Answer
		case key.Denied[call.Action]:
			wrong = denied(by.service, call.Action, key.arn())
		default:
			wrong = s.throttle(place{key.Account, by.region}, call, a.reads)
		}
	}
	delay := s.latency(call.Action) + effect.Delay
	s.mu.Unlock()
	if delay > 0 && !effect.Reset {
		t := time.NewTimer(delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		case <-s.closed.Done():
		}
	}
	if wrong != nil || effect.Reset || effect.Hang && !effect.Done {
		return nil, effect, wrong
	}
	s.mu.Lock()
	text, err := s.run(o, a, place{key.Account, by.region}, key, call.form)
	s.mu.Unlock()
	if err != nil {
		if !errors.As(err, &wrong) {
			wrong = &Error{500, "InternalFailure", err.Error()}
		}
		return nil, effect, wrong
	}
	return envelope(by.service, call.Action, call.ID, text), effect, nil
}

// hang waits until the client or the server ends.
func (s *Server) hang(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-s.closed.Done():
	}
}
