package awstest

import (
	"net/netip"
	"slices"
)

// eip is an elastic address.
type eip struct {
	meta
	public      netip.Addr
	eni         *eni // the interface that has it, at the private address
	private     netip.Addr
	association string
}

// give associates an elastic address with an address of an interface.
func (a *account) give(e *eip, n *eni, i int) {
	e.eni, e.private, e.association = n, n.v4[i].private, "eipassoc-"+a.hex()
	n.v4[i].public, n.v4[i].elastic = e.public, e.id
}

// takeBack disassociates an elastic address from its interface.
func (e *eip) takeBack() {
	for i := range e.eni.v4 {
		if e.eni.v4[i].elastic == e.id {
			e.eni.v4[i].public, e.eni.v4[i].elastic = netip.Addr{}, ""
		}
	}
	e.eni, e.private, e.association = nil, netip.Addr{}, ""
}

var noAllocation = missing("InvalidAllocationID.NotFound", "allocation")

func allocateAddress(r *request) error {
	tags, err := r.newTags("elastic-ip")
	if err != nil {
		return err
	}
	if len(r.eips.order) >= r.set.Addresses {
		return bad("AddressLimitExceeded", "The maximum number of addresses has been reached.")
	}
	e := r.eips.add(&eip{meta: r.newMeta("elastic-ip", "eipalloc"), public: r.nextPublic()})
	e.addTags(tags["elastic-ip"])
	r.x.text("allocationId", e.id)
	r.x.text("publicIp", e.public.String())
	r.x.text("domain", "vpc")
	r.x.text("networkBorderGroup", r.region)
	return nil
}

func releaseAddress(r *request) error {
	e, err := wanted(r, "AllocationId", &r.eips, noAllocation)
	if err != nil {
		return err
	}
	if e.eni != nil {
		return bad("InvalidIPAddress.InUse", "Address %s is in use.", e.public)
	}
	r.eips.remove(e)
	r.x.flag("return", true)
	return nil
}

var eipKind = &kind[*eip]{
	ids: "AllocationId", set: "addressesSet", least: 5, most: 1000, missing: noAllocation,
	by: attributes[*eip]{
		"allocation-id":  func(_ *request, e *eip) []string { return one(e.id) },
		"public-ip":      func(_ *request, e *eip) []string { return one(e.public.String()) },
		"domain":         func(*request, *eip) []string { return one("vpc") },
		"association-id": func(_ *request, e *eip) []string { return one(e.association) },
	},
	write: func(r *request, e *eip) {
		r.x.text("allocationId", e.id)
		r.x.text("publicIp", e.public.String())
		r.x.text("domain", "vpc")
		r.x.text("networkBorderGroup", r.region)
		if e.eni != nil {
			r.x.text("associationId", e.association)
			r.x.text("networkInterfaceId", e.eni.id)
			r.x.text("networkInterfaceOwnerId", r.place.account)
			r.x.text("privateIpAddress", e.private.String())
		}
		r.x.tags(e.tags)
	},
}

func describeAddresses(r *request) error { return describe(r, &r.eips, eipKind) }

// associateAddress associates an elastic address with an interface, or with the primary
// interface of an instance. It disassociates the interface's previous address.
func associateAddress(r *request) error {
	e, err := wanted(r, "AllocationId", &r.eips, noAllocation)
	if err != nil {
		return err
	}
	n, err := r.addressed()
	if err != nil {
		return err
	}
	at := 0
	if text := r.form.text("PrivateIpAddress"); text != "" {
		if at = slices.IndexFunc(n.v4, func(a address) bool { return a.private.String() == text }); at < 0 {
			return bad("InvalidParameterValue", "You must specify a valid private IP address of the interface %s: %s", n.id, text)
		}
	}
	again, err := r.form.truth("AllowReassociation", true)
	if err != nil {
		return err
	}
	switch {
	case e.eni == n && e.private == n.v4[at].private:
		r.x.flag("return", true)
		r.x.text("associationId", e.association)
		return nil
	case e.eni != nil && e.eni.manager != "" || n.manager != "":
		return &Error{403, "AuthFailure", "You do not have permission to access the specified resource."}
	case e.eni != nil && !again:
		return bad("Resource.AlreadyAssociated", "resource %s is already associated with associate-id %s", e.id, e.association)
	case !slices.ContainsFunc(r.igws.order, func(g *igw) bool { return g.vpc == n.subnet.vpc }):
		return bad("Gateway.NotAttached", "Network %s is not attached to any internet gateway", n.subnet.vpc.id)
	}
	if e.eni != nil {
		e.takeBack()
	}
	for _, o := range r.eips.order {
		if o.eni == n && o.private == n.v4[at].private {
			o.takeBack()
		}
	}
	r.give(e, n, at)
	r.x.flag("return", true)
	r.x.text("associationId", e.association)
	return nil
}

// addressed returns the interface to which a request assigns an address.
func (r *request) addressed() (*eni, error) {
	instance, nic := r.form.text("InstanceId"), r.form.text("NetworkInterfaceId")
	switch {
	case instance != "" && nic != "":
		return nil, bad("InvalidParameterCombination", "The parameters InstanceId and NetworkInterfaceId cannot be used together")
	case nic != "":
		return named(r, &r.enis, nic, noInterface)
	case instance == "":
		return nil, bad("MissingParameter", "Either instance ID or network interface id must be specified")
	}
	i, err := named(r, &r.instances, instance, noInstance)
	switch {
	case err != nil:
		return nil, err
	case i.state != running && i.state != stopped:
		return nil, bad("InvalidInstanceID", "The pending instance '%s' is not in a valid state for this operation.", i.id)
	case len(i.enis) > 1:
		return nil, bad("InvalidInstanceID", "There are multiple interfaces attached to instance '%s'. Please specify an interface ID for the operation instead.", i.id)
	}
	return i.enis[0], nil
}

func disassociateAddress(r *request) error {
	id, err := r.form.want("AssociationId")
	if err != nil {
		return err
	}
	i := slices.IndexFunc(r.eips.order, func(e *eip) bool { return e.association == id })
	if i < 0 {
		return bad("InvalidAssociationID.NotFound", "The association ID '%s' does not exist", id)
	}
	e := r.eips.order[i]
	if e.eni.manager != "" {
		return &Error{403, "AuthFailure", "You do not have permission to access the specified resource."}
	}
	e.takeBack()
	r.x.flag("return", true)
	return nil
}
