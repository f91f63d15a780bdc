package awstest

import (
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// eni is a network interface.
type eni struct {
	meta
	subnet      *subnet
	v4          []address // the first is the primary one
	v6          []netip.Addr
	groups      []*group
	check       bool // SourceDestCheck
	description string
	itype       string
	mac         string
	at          *attachment
	manager     string // the service that made it; only that service may change it
}

// address is a private IPv4 address, with its public address.
type address struct {
	private netip.Addr
	public  netip.Addr
	elastic string // its allocation ID, if it is elastic
}

// attachment attaches an interface to an instance.
type attachment struct {
	id       string
	instance *instance
	index    int
	made     time.Time
	deletes  bool // deleted with the instance
}

// plan describes a new interface.
type plan struct {
	subnet      *subnet
	private     string // "" is any
	secondary   int
	v6          []string
	v6Count     int
	groups      []string
	description string
	public      *bool
	tags        []tag
}

// readPlan reads the parameters of an interface that RunInstances and CreateNetworkInterface
// share.
func (r *request) readPlan(f *form, s *subnet) (plan, error) {
	p := plan{subnet: s, private: f.text("PrivateIpAddress"), description: f.text("Description"), groups: f.texts("SecurityGroupId")}
	for _, a := range f.list("PrivateIpAddresses") {
		if primary, err := a.truth("Primary", false); err != nil {
			return p, err
		} else if primary {
			p.private = a.text("PrivateIpAddress")
		} else {
			p.secondary++
		}
	}
	more, err := f.number("SecondaryPrivateIpAddressCount", 0)
	if err != nil {
		return p, err
	}
	p.secondary += more
	for _, name := range []string{"Ipv6Address", "Ipv6Addresses"} {
		for _, a := range f.list(name) {
			p.v6 = append(p.v6, a.text("Ipv6Address"))
		}
	}
	otherwise := 0
	if s.assignV6 && len(p.v6) == 0 {
		otherwise = 1
	}
	if p.v6Count, err = f.number("Ipv6AddressCount", otherwise); err != nil {
		return p, err
	}
	if p.secondary > 50 || p.secondary < 0 || p.v6Count > 50 || p.v6Count < 0 {
		return p, bad("PrivateIpAddressLimitExceeded", "Number of private addresses will exceed limit.")
	}
	if f.has("AssociatePublicIpAddress") {
		public, err := f.truth("AssociatePublicIpAddress", false)
		if err != nil {
			return p, err
		}
		p.public = &public
	}
	return p, nil
}

// addInterface makes an interface as planned.
func (r *request) addInterface(p plan) (*eni, error) {
	groups, err := r.groupsOf(p.subnet.vpc, p.groups)
	if err != nil {
		return nil, err
	}
	n := &eni{meta: r.newMeta("network-interface", "eni"), subnet: p.subnet, groups: groups, check: true, description: p.description, itype: "interface"}
	n.mac = fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", byte(n.seq>>32), byte(n.seq>>24), byte(n.seq>>16), byte(n.seq>>8), byte(n.seq))
	n.addTags(p.tags)
	for i := range 1 + p.secondary {
		var at netip.Addr
		var wrong *Error
		if i == 0 && p.private != "" {
			at, wrong = p.subnet.claim(p.private)
		} else {
			at, wrong = p.subnet.take()
		}
		if wrong != nil {
			n.release()
			return nil, wrong
		}
		n.v4 = append(n.v4, address{private: at})
	}
	for i := range len(p.v6) + p.v6Count {
		var at netip.Addr
		var wrong *Error
		if i < len(p.v6) {
			at, wrong = p.subnet.claim(p.v6[i])
		} else {
			at, wrong = p.subnet.take6()
		}
		if wrong != nil {
			n.release()
			return nil, wrong
		}
		n.v6 = append(n.v6, at)
	}
	return r.enis.add(n), nil
}

// release frees an interface's addresses.
func (n *eni) release() {
	for _, a := range n.v4 {
		delete(n.subnet.used, a.private)
	}
	for _, a := range n.v6 {
		delete(n.subnet.used, a)
	}
}

// deleteInterface removes an interface. Routes to it become blackholes.
func (a *account) deleteInterface(n *eni) {
	for _, e := range a.eips.order {
		if e.eni == n {
			e.takeBack()
		}
	}
	n.release()
	a.enis.remove(n)
}

// nextPublic returns an unused public address.
func (a *account) nextPublic() netip.Addr {
	a.public = a.public.Next()
	return a.public
}

// dnsSuffix is the suffix of the private DNS names of a region.
func (a *account) dnsSuffix() string {
	if a.region == "us-east-1" {
		return ".ec2.internal"
	}
	return "." + a.region + ".compute.internal"
}

func (a *account) privateName(at netip.Addr) string {
	return "ip-" + strings.ReplaceAll(at.String(), ".", "-") + a.dnsSuffix()
}

// publicName returns the public DNS name of an address, or "" in a VPC without host names.
func (a *account) publicName(v *vpc, at netip.Addr) string {
	if !v.dnsHostnames || !at.IsValid() {
		return ""
	}
	suffix := "." + a.region + ".compute.amazonaws.com"
	if a.region == "us-east-1" {
		suffix = ".compute-1.amazonaws.com"
	}
	return "ec2-" + strings.ReplaceAll(at.String(), ".", "-") + suffix
}

func createInterface(r *request) error {
	s, err := wanted(r, "SubnetId", &r.subnets, noSubnet)
	if err != nil {
		return err
	}
	p, err := r.readPlan(r.form, s)
	if err != nil {
		return err
	}
	tags, err := r.newTags("network-interface")
	if err != nil {
		return err
	}
	p.tags = tags["network-interface"]
	n, err := r.addInterface(p)
	if err != nil {
		return err
	}
	r.x.within("networkInterface", func() { writeInterface(r, n) })
	r.x.text("clientToken", r.form.text("ClientToken"))
	return nil
}

// interfaceOf returns the interface that a request names.
func (r *request) interfaceOf() (*eni, error) {
	return wanted(r, "NetworkInterfaceId", &r.enis, noInterface)
}

func deleteInterface(r *request) error {
	n, err := r.interfaceOf()
	if err != nil {
		return err
	}
	switch {
	case n.manager != "":
		return bad("OperationNotPermitted", "You are not allowed to manage '%s' attachments.", n.manager)
	case n.at != nil:
		return bad("InvalidParameterValue", "Network interface '%s' is currently in use.", n.id)
	}
	r.deleteInterface(n)
	r.x.flag("return", true)
	return nil
}

func attachInterface(r *request) error {
	n, err := r.interfaceOf()
	if err != nil {
		return err
	}
	i, err := wanted(r, "InstanceId", &r.instances, noInstance)
	if err != nil {
		return err
	}
	index, err := r.form.number("DeviceIndex", -1)
	if err != nil {
		return err
	}
	switch {
	case n.at != nil:
		return bad("InvalidNetworkInterface.InUse", "The specified interface is already attached to an instance.")
	case i.state != running && i.state != stopped:
		return bad("IncorrectState", "Instance '%s' is not in a valid state for this operation: %s", i.id, i.state.name)
	case n.subnet.zone != i.zone:
		return bad("InvalidParameterCombination", "The subnet ID '%s' is not in the same availability zone as the instance", n.subnet.id)
	case index < 1 || i.has(index):
		return bad("InvalidParameterValue", "Instance '%s' already has an interface attached at device index '%d'.", i.id, index)
	}
	n.at = &attachment{id: "eni-attach-" + r.hex(), instance: i, index: index, made: r.now}
	i.enis = append(i.enis, n)
	r.x.text("attachmentId", n.at.id)
	return nil
}

func detachInterface(r *request) error {
	id, err := r.form.want("AttachmentId")
	if err != nil {
		return err
	}
	for _, n := range r.enis.order {
		if n.at == nil || n.at.id != id {
			continue
		}
		if n.at.index == 0 {
			return bad("OperationNotPermitted", "The network interface at device index 0 cannot be detached.")
		}
		n.at.instance.drop(n)
		n.at = nil
		r.x.flag("return", true)
		return nil
	}
	return bad("InvalidAttachmentID.NotFound", "The attachment '%s' does not exist", id)
}

// modifyInterface changes one attribute.
func modifyInterface(r *request) error {
	n, err := r.interfaceOf()
	if err != nil {
		return err
	}
	switch f := r.form; {
	case n.manager != "":
		return &Error{403, "AuthFailure", "You do not have permission to access the specified resource."}
	case f.has("SourceDestCheck"):
		n.check, err = f.at("SourceDestCheck").truth("Value", n.check)
	case f.has("Description"):
		n.description = f.at("Description").text("Value")
	case f.has("SecurityGroupId"):
		var all []*group
		if all, err = r.groupsOf(n.subnet.vpc, f.texts("SecurityGroupId")); err == nil {
			n.groups = all
		}
	case f.has("Attachment"):
		if n.at == nil || n.at.id != f.at("Attachment").text("AttachmentId") {
			return bad("InvalidAttachmentID.NotFound", "The attachment '%s' does not exist", f.at("Attachment").text("AttachmentId"))
		}
		n.at.deletes, err = f.at("Attachment").truth("DeleteOnTermination", n.at.deletes)
	default:
		return bad("InvalidParameterCombination", "No attributes specified.")
	}
	if err != nil {
		return err
	}
	r.x.flag("return", true)
	return nil
}
