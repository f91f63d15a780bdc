package awstest

import "slices"

// listener is a port of a load balancer.
type listener struct {
	meta
	of          *balancer
	port        int
	protocol    string
	to          []forward
	certificate string
	policy      string
	alpn        string
	attributes  map[string]string
	settings    string // those that it was made with
}

// forward is a target group that a listener forwards to.
type forward struct {
	group  *targetGroup
	weight int
}

var nlbProtocols = []string{"UDP", "TCP", "TCP_UDP", "TLS"}

// fits are the protocols of target groups, by that of the listener.
var fits = map[string][]string{"TCP": {"TCP", "TCP_UDP"}, "UDP": {"UDP", "TCP_UDP"}, "TCP_UDP": {"TCP_UDP"}, "TLS": {"TCP", "TLS"}}

func createListener(r *request) error {
	b, err := r.balancerOf()
	if err != nil {
		return err
	}
	for _, name := range []string{"Port", "Protocol"} {
		if r.form.text(name) == "" {
			return invalid("A listener %s must be specified", lower(name))
		}
	}
	l := &listener{of: b, attributes: map[string]string{"tcp.idle_timeout.seconds": "350"}, settings: r.form.print("Version")}
	if err := r.readListener(l, true); err != nil {
		return err
	}
	tags, err := r.elbTags(listed(r.form, "Tags"))
	if err != nil {
		return err
	}
	ports := r.listeners.find(func(o *listener) bool { return o.of == b })
	for _, o := range ports {
		if o.port != l.port {
			continue
		}
		if o.settings == l.settings {
			return r.wroteListeners([]*listener{o})
		}
		return bad("DuplicateListener", "A listener already exists on this port for this load balancer '%s'", b.id)
	}
	if len(ports) >= r.set.ListenersPerBalancer {
		return bad("TooManyListeners", "The maximum number of listeners on load balancer '%s' has been reached", b.id)
	}
	l.meta = r.newResource("listener", "listener/net/"+b.name+"/"+b.hex+"/"+r.hex16())
	l.addTags(tags)
	r.listeners.add(l)
	return r.wroteListeners([]*listener{l})
}

// readListener reads what a request says of a listener.
func (r *request) readListener(l *listener, isNew bool) error {
	f := r.form
	var err error
	if l.port, err = r.between(f, "Port", 1, 65535, l.port); err != nil {
		return err
	}
	if p := f.text("Protocol"); p != "" {
		if !slices.Contains(nlbProtocols, p) {
			return invalid("Listener protocol '%s' must be one of 'UDP, TCP, TCP_UDP, TLS'", p)
		}
		if p != "TLS" {
			l.certificate, l.policy, l.alpn = "", "", ""
		}
		l.protocol = p
	}
	if err := r.fitListener(l.of, l.protocol); err != nil {
		return err
	}
	if err := r.readTLS(l); err != nil {
		return err
	}
	actions := listed(f, "DefaultActions")
	if isNew || len(actions) > 0 {
		if l.to, err = r.readActions(actions); err != nil {
			return err
		}
	}
	for _, to := range l.to {
		g := to.group
		others := r.balancersOf(g)
		switch {
		case !slices.Contains(fits[l.protocol], g.protocol):
			return bad("IncompatibleProtocols", "The listener with the protocol '%s' and its associated target group '%s' with the protocol '%s' are incompatible", l.protocol, g.id, g.protocol)
		case g.vpc != l.of.vpc:
			return unfit("The following target groups are not in the same VPC as the load balancer: '%s'", g.id)
		case len(others) > 0 && !slices.Contains(others, l.of):
			return bad("TargetGroupAssociationLimit", "The following target groups cannot be associated with more than one load balancer: '%s'", g.id)
		case g.family == "ipv6" && l.of.family != dualstack:
			return unfit("Target group '%s' with the IP address type 'ipv6' needs a load balancer with the IP address type 'dualstack'", g.id)
		}
	}
	return nil
}

// fitListener checks that a load balancer can have a listener of a protocol: packets of
// UDP to IPv6 addresses need a prefix as their source.
func (r *request) fitListener(b *balancer, protocol string) error {
	if b.family == dualstack && b.prefix != "on" && (protocol == "UDP" || protocol == "TCP_UDP") {
		return unfit("Listeners with the protocol '%s' need EnablePrefixForIpv6SourceNat on a load balancer with the IP address type 'dualstack'", protocol)
	}
	return nil
}

// readTLS reads what only listeners with TLS have.
func (r *request) readTLS(l *listener) error {
	f := r.form
	certificates, alpn := listed(f, "Certificates"), listedTexts(f, "AlpnPolicy")
	if l.protocol != "TLS" {
		switch {
		case len(certificates) > 0:
			return unfit("You cannot specify certificates for listeners with the protocol '%s'", l.protocol)
		case f.text("SslPolicy") != "":
			return unfit("You cannot specify an SSL policy for listeners with the protocol '%s'", l.protocol)
		case len(alpn) > 0:
			return bad("ALPNPolicyNotSupported", "ALPN policies are not supported for listeners with the protocol '%s'", l.protocol)
		}
		return nil
	}
	switch {
	case len(certificates) > 1 || len(certificates) == 0 && l.certificate == "":
		return unfit("You must provide a list containing exactly one certificate if the listener protocol is TLS")
	case len(certificates) == 1:
		if l.certificate = certificates[0].text("CertificateArn"); !r.certs[l.certificate] {
			return bad("CertificateNotFound", "Certificate '%s' not found", l.certificate)
		}
	}
	if p := f.text("SslPolicy"); p != "" {
		if !slices.Contains(sslPolicies, p) {
			return bad("SSLPolicyNotFound", "SSL policy '%s' not found", p)
		}
		l.policy = p
	} else if l.policy == "" {
		l.policy = sslPolicies[0]
	}
	if len(alpn) > 1 || len(alpn) == 1 && !slices.Contains([]string{"HTTP1Only", "HTTP2Only", "HTTP2Optional", "HTTP2Preferred", "None"}, alpn[0]) {
		return invalid("The ALPN policy must be one of 'HTTP1Only, HTTP2Only, HTTP2Optional, HTTP2Preferred, None'")
	}
	if len(alpn) == 1 {
		l.alpn = alpn[0]
	}
	return nil
}

var sslPolicies = []string{"ELBSecurityPolicy-2016-08", "ELBSecurityPolicy-TLS13-1-2-2021-06", "ELBSecurityPolicy-TLS13-1-3-2021-06", "ELBSecurityPolicy-TLS13-1-2-Res-2021-06", "ELBSecurityPolicy-TLS-1-2-2017-01", "ELBSecurityPolicy-FS-1-2-Res-2020-10"}

// readActions reads where a listener forwards to.
func (r *request) readActions(actions []*form) ([]forward, error) {
	if len(actions) != 1 {
		return nil, invalid("You must specify exactly one default action")
	}
	f := actions[0]
	if kind := f.text("Type"); kind != "forward" {
		return nil, bad("InvalidLoadBalancerAction", "The action type '%s' is not valid for a network load balancer", kind)
	}
	var all []forward
	add := func(arn string, weight int) error {
		g, err := named(r, &r.targets, arn, noTargetGroup)
		if err == nil {
			all = append(all, forward{g, weight})
		}
		return err
	}
	groups := listed(f.at("ForwardConfig"), "TargetGroups")
	arn := f.text("TargetGroupArn")
	switch {
	case len(groups) == 0 && arn == "":
		return nil, invalid("A target group ARN must be specified")
	case len(groups) > 5:
		return nil, invalid("At most 5 target groups can be specified for an action")
	case arn != "" && (len(groups) > 1 || len(groups) == 1 && groups[0].text("TargetGroupArn") != arn):
		return nil, invalid("You cannot specify both a target group ARN and other target groups")
	case len(groups) == 0:
		return all, add(arn, 1)
	}
	for _, g := range groups {
		weight, err := r.between(g, "Weight", 0, 999, 1)
		if err != nil {
			return nil, err
		}
		if err := add(g.text("TargetGroupArn"), weight); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (r *request) wroteListeners(all []*listener) error {
	x := r.x
	members(x, "Listeners", all, func(l *listener) {
		x.text("ListenerArn", l.id)
		x.text("LoadBalancerArn", l.of.id)
		x.number("Port", l.port)
		x.text("Protocol", l.protocol)
		if l.protocol == "TLS" {
			members(x, "Certificates", []string{l.certificate}, func(arn string) { x.text("CertificateArn", arn) })
			x.text("SslPolicy", l.policy)
			if l.alpn != "" {
				x.texts("AlpnPolicy", []string{l.alpn})
			}
		}
		x.within("DefaultActions", func() {
			x.within("member", func() {
				x.text("Type", "forward")
				if len(l.to) == 1 {
					x.text("TargetGroupArn", l.to[0].group.id)
				}
				x.within("ForwardConfig", func() {
					members(x, "TargetGroups", l.to, func(to forward) {
						x.text("TargetGroupArn", to.group.id)
						x.number("Weight", to.weight)
					})
				})
			})
		})
	})
	return nil
}

func describeListeners(r *request) error {
	arns := listedTexts(r.form, "ListenerArns")
	is := func(*listener) bool { return true }
	switch of := r.form.text("LoadBalancerArn"); {
	case of == "" && len(arns) == 0:
		return invalid("You must specify either listener ARNs or a load balancer ARN")
	case of != "" && len(arns) > 0:
		return invalid("Listener ARNs and a load balancer ARN cannot be specified at the same time")
	case of != "":
		b, err := r.balancerOf()
		if err != nil {
			return err
		}
		is = func(l *listener) bool { return l.of == b }
	}
	found, next, err := pickELB(r, &r.listeners, arns, is, func(l *listener) string { return l.id }, noListener)
	if err != nil {
		return err
	}
	r.wroteListeners(found)
	r.x.text("NextMarker", next)
	return nil
}

func (r *request) listenerOf() (*listener, error) {
	return resourceOf(r, &r.listeners, "ListenerArn", noListener)
}

func modifyListener(r *request) error {
	l, err := r.listenerOf()
	if err != nil {
		return err
	}
	then := *l
	if err := r.readListener(&then, false); err != nil {
		return err
	}
	if slices.ContainsFunc(r.listeners.order, func(o *listener) bool { return o != l && o.of == l.of && o.port == then.port }) {
		return bad("DuplicateListener", "A listener already exists on this port for this load balancer '%s'", l.of.id)
	}
	*l = then
	l.settings = ""
	return r.wroteListeners([]*listener{l})
}

func deleteListener(r *request) error {
	l, err := r.listenerOf()
	if err != nil {
		return err
	}
	r.listeners.remove(l)
	return nil
}
