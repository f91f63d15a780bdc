package awstest

import (
	"slices"
	"strings"
)

func writeInstance(r *request, i *instance) {
	x := r.x
	x.text("instanceId", i.id)
	x.text("imageId", i.image)
	x.within("instanceState", func() { i.state.write(x) })
	x.always("privateDnsName", r.nameOf(i))
	x.always("reason", i.reason)
	if i.reasonCode != "" {
		x.within("stateReason", func() {
			x.text("code", i.reasonCode)
			x.text("message", i.reason)
		})
	}
	x.text("keyName", i.key)
	x.number("amiLaunchIndex", i.index)
	x.text("instanceType", i.itype)
	x.moment("launchTime", i.launched)
	x.within("placement", func() {
		x.text("availabilityZone", i.zone.name)
		x.text("availabilityZoneId", i.zone.id)
		x.text("tenancy", "default")
	})
	x.within("monitoring", func() { x.text("state", "disabled") })
	x.text("architecture", "x86_64")
	x.text("rootDeviceType", "ebs")
	x.text("rootDeviceName", "/dev/xvda")
	x.text("virtualizationType", "hvm")
	x.text("hypervisor", "xen")
	x.text("clientToken", i.token)
	x.flag("ebsOptimized", false)
	x.flag("enaSupport", true)
	x.within("privateDnsNameOptions", func() { x.hostname(i.byName, i.aRecord, i.aaaaRecord) })
	x.tags(i.tags)
	if len(i.enis) == 0 {
		x.open("networkInterfaceSet")
		x.close("networkInterfaceSet")
		return
	}
	first := i.enis[0]
	x.text("vpcId", i.subnet.vpc.id)
	x.text("subnetId", i.subnet.id)
	x.text("privateIpAddress", first.v4[0].private.String())
	if public := first.v4[0].public; public.IsValid() {
		x.text("ipAddress", public.String())
		x.text("dnsName", r.publicName(i.subnet.vpc, public))
	}
	if len(first.v6) > 0 {
		x.text("ipv6Address", first.v6[0].String())
	}
	x.flag("sourceDestCheck", first.check)
	x.groups(first.groups)
	items(x, "networkInterfaceSet", i.enis, func(n *eni) {
		r.common(n)
		x.within("attachment", func() { n.at.write(x) })
	})
}

// reservation writes the instances of one launch.
func (r *request) reservation(all []*instance) {
	r.x.text("reservationId", all[0].reservation)
	r.x.text("ownerId", r.place.account)
	r.x.open("groupSet")
	r.x.close("groupSet")
	items(r.x, "instancesSet", all, func(i *instance) { writeInstance(r, i) })
}

func describeInstances(r *request) error {
	for _, id := range r.form.texts("InstanceId") {
		if !wellFormed(id, "i-") {
			return bad("InvalidInstanceID.Malformed", "Invalid id: \"%s\"", id)
		}
	}
	found, next, err := pick(r, &r.instances, instanceKind)
	if err != nil {
		return err
	}
	r.x.open("reservationSet")
	for len(found) > 0 {
		n := slices.IndexFunc(found, func(i *instance) bool { return i.reservation != found[0].reservation })
		if n < 0 {
			n = len(found)
		}
		r.x.within("item", func() { r.reservation(found[:n]) })
		found = found[n:]
	}
	r.x.close("reservationSet")
	r.x.text("nextToken", next)
	return nil
}

// wellFormed reports whether an ID is a prefix and 8 or 17 hexadecimal digits.
func wellFormed(id, prefix string) bool {
	digits, ok := strings.CutPrefix(id, prefix)
	return ok && (len(digits) == 8 || len(digits) == 17) && strings.Trim(digits, "0123456789abcdef") == ""
}

// inPlace returns a filter by a value that a terminated instance does not have.
func inPlace(get func(*request, *instance) []string) func(*request, *instance) []string {
	return func(r *request, i *instance) []string {
		if len(i.enis) == 0 {
			return nil
		}
		return get(r, i)
	}
}

func ofInterfaces(get func(*eni) []string) func(*request, *instance) []string {
	return func(_ *request, i *instance) []string {
		var all []string
		for _, n := range i.enis {
			all = append(all, get(n)...)
		}
		return all
	}
}

var instanceKind = &kind[*instance]{
	ids: "InstanceId", least: 5, most: 1000, missing: noInstance,
	by: attributes[*instance]{
		"instance-id":         func(_ *request, i *instance) []string { return one(i.id) },
		"reservation-id":      func(_ *request, i *instance) []string { return one(i.reservation) },
		"instance-type":       func(_ *request, i *instance) []string { return one(i.itype) },
		"image-id":            func(_ *request, i *instance) []string { return one(i.image) },
		"key-name":            func(_ *request, i *instance) []string { return one(i.key) },
		"client-token":        func(_ *request, i *instance) []string { return one(i.token) },
		"owner-id":            func(r *request, _ *instance) []string { return one(r.place.account) },
		"instance-state-name": func(_ *request, i *instance) []string { return one(i.state.name) },
		"instance-state-code": func(_ *request, i *instance) []string { return one(itoa(i.state.code)) },
		"availability-zone":   func(_ *request, i *instance) []string { return one(i.zone.name) },
		"vpc-id":              inPlace(func(_ *request, i *instance) []string { return one(i.subnet.vpc.id) }),
		"subnet-id":           inPlace(func(_ *request, i *instance) []string { return one(i.subnet.id) }),
		"private-dns-name":    inPlace(func(r *request, i *instance) []string { return one(r.nameOf(i)) }),
		"private-ip-address":  inPlace(func(_ *request, i *instance) []string { return one(i.enis[0].v4[0].private.String()) }),
		"ip-address": inPlace(func(_ *request, i *instance) []string {
			if public := i.enis[0].v4[0].public; public.IsValid() {
				return one(public.String())
			}
			return nil
		}),
		"source-dest-check":                              inPlace(func(_ *request, i *instance) []string { return yes(i.enis[0].check) }),
		"instance.group-id":                              inPlace(func(_ *request, i *instance) []string { return groupIDs(i.enis[0].groups) }),
		"network-interface.network-interface-id":         ofInterfaces(func(n *eni) []string { return one(n.id) }),
		"network-interface.addresses.private-ip-address": ofInterfaces((*eni).texts4),
		"network-interface.ipv6-addresses.ipv6-address":  ofInterfaces((*eni).texts6),
		"network-interface.subnet-id":                    ofInterfaces(func(n *eni) []string { return one(n.subnet.id) }),
		"network-interface.vpc-id":                       ofInterfaces(func(n *eni) []string { return one(n.subnet.vpc.id) }),
		"network-interface.group-id":                     ofInterfaces(func(n *eni) []string { return groupIDs(n.groups) }),
		"network-interface.source-dest-check":            ofInterfaces(func(n *eni) []string { return yes(n.check) }),
		"network-interface.private-dns-name": func(r *request, i *instance) []string {
			var all []string
			for _, n := range i.enis {
				all = append(all, r.privateName(n.v4[0].private))
			}
			return all
		},
	},
}
