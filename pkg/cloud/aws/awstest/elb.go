package awstest

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// invalid returns the refusal of a parameter that Elastic Load Balancing cannot use.
func invalid(format string, args ...any) *Error { return bad("ValidationError", format, args...) }

// unfit returns the refusal of a configuration that it does not support.
func unfit(format string, args ...any) *Error {
	return bad("InvalidConfigurationRequest", format, args...)
}

var (
	noBalancer = func(arn string) *Error {
		return bad("LoadBalancerNotFound", "Load balancer '%s' not found", arn)
	}
	noTargetGroup = func(arn string) *Error {
		return bad("TargetGroupNotFound", "One or more target groups not found: '%s'", arn)
	}
	noListener = func(arn string) *Error {
		return bad("ListenerNotFound", "One or more listeners not found: '%s'", arn)
	}
)

// need returns a parameter that a request must have.
func (r *request) need(f *form, name string) (string, error) {
	if v := f.text(name); v != "" {
		return v, nil
	}
	return "", invalid("1 validation error detected: Value null at '%s' failed to satisfy constraint: Member must not be null", lower(name))
}

func lower(name string) string { return strings.ToLower(name[:1]) + name[1:] }

// listed returns the nodes of a list in the form in which Elastic Load Balancing gets one.
func listed(f *form, name string) []*form { return f.at(name).list("member") }

func listedTexts(f *form, name string) []string { return f.at(name).texts("member") }

// between returns a parameter that is a number in a range.
func (r *request) between(f *form, name string, least, most, otherwise int) (int, error) {
	if !f.has(name) {
		return otherwise, nil
	}
	n, err := strconv.Atoi(f.text(name))
	if err != nil || n < least || n > most {
		return 0, invalid("1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: Member must be a number between %d and %d", f.text(name), lower(name), least, most)
	}
	return n, nil
}

// among returns a parameter that is one of some values, the first unless it is set.
func (r *request) among(f *form, name string, values ...string) (string, error) {
	v := f.text(name)
	if v == "" {
		return values[0], nil
	}
	if !slices.Contains(values, v) {
		return "", invalid("1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: Member must satisfy enum value set: [%s]", v, lower(name), strings.Join(values, ", "))
	}
	return v, nil
}

var elbName = regexp.MustCompile(`^[A-Za-z0-9-]+$`)

// nameOfNew returns the name of a load balancer or target group that is to be made.
func (r *request) nameOfNew(what string) (string, error) {
	name, err := r.need(r.form, "Name")
	switch {
	case err != nil:
		return "", err
	case len(name) > 32:
		return "", invalid("The %s name '%s' cannot be longer than '32' characters", what, name)
	case !elbName.MatchString(name):
		return "", invalid("The %s name '%s' can only contain characters that are alphanumeric characters and hyphens(-)", what, name)
	case strings.HasPrefix(name, "-") || strings.HasSuffix(name, "-"):
		return "", invalid("The %s name '%s' cannot begin or end with '-'", what, name)
	case what == "load balancer" && strings.HasPrefix(name, "internal-"):
		return "", invalid("The load balancer name '%s' cannot begin with 'internal-'", name)
	}
	return name, nil
}

// newResource returns the meta of a new object, whose ID is the ARN.
func (r *request) newResource(kind, path string) meta {
	m := r.newMeta(kind, "elb")
	m.id = r.arn(elbService, path)
	return m
}

// hex16 returns 16 digits that no other object of the server has.
func (r *request) hex16() string { return r.hex()[1:] }

// members writes a list.
func members[T any](x *answer, name string, all []T, write func(T)) {
	x.open(name)
	for _, one := range all {
		x.open("member")
		write(one)
		x.close("member")
	}
	x.close(name)
}

func (x *answer) texts(name string, all []string) {
	members(x, name, all, func(v string) { x.b = append(x.b, escapes.Replace(v)...) })
}

// mostNamed is how many objects a request may name.
const mostNamed = 20

// pickELB returns one page of the objects that are so. If the request names objects, they
// must be there.
func pickELB[T object](r *request, s *shelf[T], names []string, is func(T) bool, nameOf func(T) string, missing func(string) *Error) (found []T, next string, err error) {
	if len(names) > mostNamed {
		return nil, "", invalid("Up to %d can be described at once, and the request names %d", mostNamed, len(names))
	}
	size, err := r.between(r.form, "PageSize", 1, 400, 400)
	if err != nil {
		return nil, "", err
	}
	if r.set.Page > 0 {
		size = min(size, r.set.Page)
	}
	after := 0
	if m := r.form.text("Marker"); m != "" {
		text, _ := base64.RawURLEncoding.DecodeString(m)
		action, rest, _ := strings.Cut(string(text), " ")
		if after, err = strconv.Atoi(rest); err != nil || action != r.action {
			return nil, "", invalid("The marker '%s' is not valid", m)
		}
	}
	there := make(map[string]bool)
	for _, o := range s.order {
		m := o.base()
		if !r.seen(m.made) || !is(o) || len(names) > 0 && !slices.Contains(names, nameOf(o)) {
			continue
		}
		there[nameOf(o)] = true
		switch {
		case m.seq <= after:
		case len(found) == size:
			next = base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s %d", r.action, found[size-1].base().seq))
		case next == "":
			found = append(found, o)
		}
	}
	for _, n := range names {
		if !there[n] {
			return nil, "", missing(n)
		}
	}
	return found, next, nil
}

// resourceOf returns the object that a parameter names.
func resourceOf[T object](r *request, s *shelf[T], parameter string, missing func(string) *Error) (T, error) {
	var none T
	arn, err := r.need(r.form, parameter)
	if err != nil {
		return none, err
	}
	if !strings.HasPrefix(arn, "arn:aws:"+elbService+":") {
		return none, invalid("'%s' is not a valid ARN", arn)
	}
	return named(r, s, arn, missing)
}

// describeLimits answers with the quotas.
func describeLimits(r *request) error {
	type limit struct {
		name string
		most int
	}
	members(r.x, "Limits", []limit{
		{"network-load-balancers", r.set.Balancers},
		{"listeners-per-network-load-balancer", r.set.ListenersPerBalancer},
		{"target-groups", r.set.TargetGroups},
		{"targets-per-availability-zone-per-network-load-balancer", r.set.TargetsPerZone},
		{"targets-per-network-load-balancer", r.set.TargetsPerBalancer},
	}, func(l limit) {
		r.x.text("Name", l.name)
		r.x.number("Max", l.most)
	})
	return nil
}
