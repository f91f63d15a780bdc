package awstest

import "net/netip"

func (n *eni) status() string {
	if n.at == nil && n.manager == "" {
		return "available"
	}
	return "in-use"
}

// common writes the elements that an interface has in all answers.
func (r *request) common(n *eni) {
	x := r.x
	x.text("networkInterfaceId", n.id)
	x.text("subnetId", n.subnet.id)
	x.text("vpcId", n.subnet.vpc.id)
	x.always("description", n.description)
	x.text("ownerId", r.place.account)
	x.text("status", n.status())
	x.text("macAddress", n.mac)
	x.text("privateIpAddress", n.v4[0].private.String())
	x.text("privateDnsName", r.privateName(n.v4[0].private))
	x.flag("sourceDestCheck", n.check)
	x.text("interfaceType", n.itype)
	x.groups(n.groups)
	r.public(n, n.v4[0])
	first := true
	items(x, "privateIpAddressesSet", n.v4, func(a address) {
		x.text("privateIpAddress", a.private.String())
		x.text("privateDnsName", r.privateName(a.private))
		x.flag("primary", first)
		r.public(n, a)
		first = false
	})
	items(x, "ipv6AddressesSet", n.v6, func(a netip.Addr) {
		x.text("ipv6Address", a.String())
		x.flag("isPrimaryIpv6", false)
	})
}

func (r *request) public(n *eni, a address) {
	if !a.public.IsValid() {
		return
	}
	r.x.within("association", func() {
		r.x.text("publicIp", a.public.String())
		r.x.text("publicDnsName", r.publicName(n.subnet.vpc, a.public))
		owner := "amazon"
		if a.elastic != "" {
			owner = r.place.account
			r.x.text("allocationId", a.elastic)
		}
		r.x.text("ipOwnerId", owner)
	})
}

func writeInterface(r *request, n *eni) {
	x := r.x
	r.common(n)
	x.text("availabilityZone", n.subnet.zone.name)
	x.text("availabilityZoneId", n.subnet.zone.id)
	x.flag("requesterManaged", n.manager != "")
	x.text("requesterId", n.manager)
	if n.at != nil {
		x.within("attachment", func() {
			n.at.write(x)
			x.text("instanceId", n.at.instance.id)
			x.text("instanceOwnerId", r.place.account)
		})
	}
	x.tags(n.tags)
}

func (at *attachment) write(x *answer) {
	x.text("attachmentId", at.id)
	x.number("deviceIndex", at.index)
	x.number("networkCardIndex", 0)
	x.text("status", "attached")
	x.moment("attachTime", at.made)
	x.flag("deleteOnTermination", at.deletes)
}

func (n *eni) texts4() []string {
	var all []string
	for _, a := range n.v4 {
		all = append(all, a.private.String())
	}
	return all
}

func (n *eni) texts6() []string {
	var all []string
	for _, a := range n.v6 {
		all = append(all, a.String())
	}
	return all
}

var eniKind = &kind[*eni]{
	ids: "NetworkInterfaceId", set: "networkInterfaceSet", least: 5, most: 1000, missing: noInterface, write: writeInterface,
	by: attributes[*eni]{
		"network-interface-id":         func(_ *request, n *eni) []string { return one(n.id) },
		"vpc-id":                       func(_ *request, n *eni) []string { return one(n.subnet.vpc.id) },
		"subnet-id":                    func(_ *request, n *eni) []string { return one(n.subnet.id) },
		"availability-zone":            func(_ *request, n *eni) []string { return one(n.subnet.zone.name) },
		"group-id":                     func(_ *request, n *eni) []string { return groupIDs(n.groups) },
		"group-name":                   func(_ *request, n *eni) []string { return groupNames(n.groups) },
		"description":                  func(_ *request, n *eni) []string { return []string{n.description} },
		"mac-address":                  func(_ *request, n *eni) []string { return one(n.mac) },
		"status":                       func(_ *request, n *eni) []string { return one(n.status()) },
		"source-dest-check":            func(_ *request, n *eni) []string { return yes(n.check) },
		"interface-type":               func(_ *request, n *eni) []string { return one(n.itype) },
		"owner-id":                     func(r *request, _ *eni) []string { return one(r.place.account) },
		"requester-id":                 func(_ *request, n *eni) []string { return one(n.manager) },
		"requester-managed":            func(_ *request, n *eni) []string { return yes(n.manager != "") },
		"private-ip-address":           func(_ *request, n *eni) []string { return n.texts4() },
		"addresses.private-ip-address": func(_ *request, n *eni) []string { return n.texts4() },
		"ipv6-addresses.ipv6-address":  func(_ *request, n *eni) []string { return n.texts6() },
		"private-dns-name":             func(r *request, n *eni) []string { return one(r.privateName(n.v4[0].private)) },
		"attachment.instance-id": func(_ *request, n *eni) []string {
			if n.at == nil {
				return nil
			}
			return one(n.at.instance.id)
		},
		"attachment.attachment-id": func(_ *request, n *eni) []string {
			if n.at == nil {
				return nil
			}
			return one(n.at.id)
		},
		"association.public-ip": func(_ *request, n *eni) []string {
			var all []string
			for _, a := range n.v4 {
				if a.public.IsValid() {
					all = append(all, a.public.String())
				}
			}
			return all
		},
	},
}

func describeInterfaces(r *request) error { return describe(r, &r.enis, eniKind) }
