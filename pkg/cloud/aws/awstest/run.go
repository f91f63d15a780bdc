package awstest

import (
	"cmp"
	"net/netip"
	"slices"
)

var noAddress netip.Addr

// runInstances makes from MinCount to MaxCount instances, or none.
func runInstances(r *request) error {
	f := r.form
	if _, err := f.want("ImageId"); err != nil {
		return err
	}
	least, most, err := countsOf(f)
	if err != nil {
		return err
	}
	plans, given, err := r.interfacePlans(most)
	if err != nil {
		return err
	}
	tags, err := r.newTags("instance", "network-interface", "volume", "spot-instances-request")
	if err != nil {
		return err
	}
	home := r.homeOf(plans, given)
	if home == nil {
		return bad("InvalidParameterValue", "The interface at device index 0 is missing")
	}
	proto := instance{
		reservation: "r-" + r.hex(), subnet: home, zone: home.zone, image: f.text("ImageId"), key: f.text("KeyName"),
		itype: cmp.Or(f.text("InstanceType"), "m1.small"), token: f.text("ClientToken"), launched: r.now,
		byName: home.byName, aRecord: home.aRecord, aaaaRecord: home.aaaaRecord,
	}
	if o := f.at("PrivateDnsNameOptions"); o.has("HostnameType") {
		proto.byName = o.text("HostnameType") == "resource-name"
	}
	if proto.protected, err = f.truth("DisableApiTermination", false); err != nil {
		return err
	}
	if free := home.free(); free < most*(1+plans[0].secondary) {
		if most = free / (1 + plans[0].secondary); most < least {
			return bad("InsufficientFreeAddressesInSubnet", "There are not enough free addresses in subnet '%s' to satisfy the requested number of instances.", home.id)
		}
	}
	var made []*instance
	for n := range most {
		i := proto
		i.meta, i.index = r.newMeta("instance", "i"), n
		i.addTags(tags["instance"])
		if err := r.wire(&i, plans, given, tags["network-interface"]); err != nil {
			for _, other := range append(made, &i) {
				r.undo(other)
			}
			return err
		}
		made = append(made, &i)
	}
	for _, i := range made {
		r.instances.add(i)
		r.move(i, pending, r.set.Boot, running)
	}
	r.reservation(made)
	return nil
}

// countsOf returns how many instances a request wants at least and at most.
func countsOf(f *form) (least, most int, err error) {
	if least, err = f.number("MinCount", 0); err != nil {
		return 0, 0, err
	}
	if most, err = f.number("MaxCount", 0); err != nil {
		return 0, 0, err
	}
	if least < 1 || most < least || most > 10000 {
		return 0, 0, bad("InvalidParameterValue", "Invalid value '%d' for minCount, or '%d' for maxCount. They must be at least 1, and maxCount not less than minCount", least, most)
	}
	return least, most, nil
}

// devicePlan plans the interface at an index: a new one, or an existing one.
type devicePlan struct {
	plan
	index   int
	deletes bool
}

// interfacePlans returns the plans of the interfaces of each new instance: the new ones, and
// the existing ones that the request names. most is the maximum number of instances.
func (r *request) interfacePlans(most int) (plans, given []devicePlan, err error) {
	f := r.form
	specs := f.list("NetworkInterface")
	if len(specs) == 0 {
		p, err := r.newInterface(f)
		if err == nil && p.private != "" && most > 1 {
			err = bad("InvalidParameterCombination", "You may not specify a private IP address with more than one instance")
		}
		return []devicePlan{{p, 0, true}}, nil, err
	}
	if f.has("SubnetId") || f.has("SecurityGroupId") {
		return nil, nil, bad("InvalidParameterCombination", "Network interfaces and an instance-level subnet ID or security groups may not be specified on the same request")
	}
	seen := make(map[int]bool)
	for _, spec := range specs {
		index, err := spec.number("DeviceIndex", -1)
		if err != nil {
			return nil, nil, err
		}
		if index < 0 || index > 15 || seen[index] {
			return nil, nil, bad("InvalidParameterValue", "Each network interface requires a device index of its own")
		}
		seen[index] = true
		if id := spec.text("NetworkInterfaceId"); id != "" {
			n, err := named(r, &r.enis, id, noInterface)
			if err != nil {
				return nil, nil, err
			}
			if n.at != nil || n.manager != "" || most > 1 {
				return nil, nil, bad("InvalidNetworkInterface.InUse", "Interface: [%s] in use.", id)
			}
			given = append(given, devicePlan{plan{subnet: n.subnet, private: id}, index, false})
			continue
		}
		p, err := r.newInterface(spec)
		if err != nil {
			return nil, nil, err
		}
		deletes, err := spec.truth("DeleteOnTermination", true)
		if err != nil {
			return nil, nil, err
		}
		plans = append(plans, devicePlan{p, index, deletes})
	}
	if len(plans) == 0 {
		plans = append(plans, devicePlan{plan: plan{}, index: -1})
	}
	return plans, given, nil
}

// newInterface returns the plan of a new interface.
func (r *request) newInterface(spec *form) (plan, error) {
	s, err := r.homeSubnet(spec.text("SubnetId"))
	if err != nil {
		return plan{}, err
	}
	return r.readPlan(spec, s)
}

// homeSubnet returns the subnet with an ID, or the default subnet of the requested zone.
func (r *request) homeSubnet(id string) (*subnet, error) {
	if id != "" {
		return named(r, &r.subnets, id, noSubnet)
	}
	wanted := r.form.at("Placement").text("AvailabilityZone")
	for _, s := range r.subnets.order {
		if s.isDefault && (wanted == "" || wanted == s.zone.name) {
			return s, nil
		}
	}
	return nil, bad("MissingInput", "No subnets found for the default VPC. Please specify a subnet.")
}

// homeOf returns the subnet of the interface at index 0.
func (r *request) homeOf(lists ...[]devicePlan) *subnet {
	for _, list := range lists {
		for _, p := range list {
			if p.index == 0 {
				return p.subnet
			}
		}
	}
	return nil
}

// wire makes and attaches the interfaces of a new instance.
func (r *request) wire(i *instance, plans, given []devicePlan, tags []tag) error {
	for _, p := range slices.Concat(plans, given) {
		if p.index < 0 {
			continue
		}
		n := r.enis.byID[p.private]
		if n == nil {
			p.tags = tags
			var err error
			if n, err = r.addInterface(p.plan); err != nil {
				return err
			}
			if p.public != nil && *p.public || p.public == nil && p.subnet.public && p.index == 0 {
				n.v4[0].public = r.nextPublic()
			}
		}
		n.at = &attachment{id: "eni-attach-" + r.hex(), instance: i, index: p.index, made: r.now, deletes: p.deletes}
		i.enis = append(i.enis, n)
	}
	slices.SortFunc(i.enis, func(a, b *eni) int { return a.at.index - b.at.index })
	return nil
}

// undo removes the interfaces of an instance that could not be made.
func (r *request) undo(i *instance) {
	for _, n := range i.enis {
		if n.at.deletes {
			r.deleteInterface(n)
		}
		n.at = nil
	}
}
