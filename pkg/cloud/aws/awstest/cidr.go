package awstest

import "slices"

// associateVPCBlock adds a block to a VPC: an IPv4 block, or one of Amazon's IPv6 blocks.
func associateVPCBlock(r *request) error {
	v, err := wanted(r, "VpcId", &r.vpcs, noVPC)
	if err != nil {
		return err
	}
	six, err := r.form.truth("AmazonProvidedIpv6CidrBlock", false)
	if err != nil {
		return err
	}
	text := r.form.text("CidrBlock")
	switch {
	case six && text != "":
		return bad("InvalidParameterCombination", "The parameters CidrBlock and AmazonProvidedIpv6CidrBlock cannot be used together")
	case six && len(v.v6) > 0:
		return bad("CidrLimitExceeded", "This network '%s' has met its maximum number of allowed CIDRs: 1", v.id)
	case !six && text == "":
		return bad("MissingParameter", "Either 'cidrBlock' or 'amazonProvidedIpv6CidrBlock' should be provided.")
	case six:
		b := r.addV6(v)
		r.x.text("vpcId", v.id)
		r.x.within("ipv6CidrBlockAssociation", func() { r.x.v6Block(b, r.region) })
		return nil
	}
	p, err := r.prefixOf(text, false)
	if err != nil {
		return err
	}
	switch {
	case p.Bits() < 16 || p.Bits() > 28:
		return bad("InvalidVpc.Range", "The CIDR '%s' is invalid.", p)
	case slices.ContainsFunc(v.v4, func(b block) bool { return b.prefix.Overlaps(p) }):
		return bad("InvalidVpc.Range", "The CIDR '%s' conflicts with another CIDR of the VPC", p)
	case len(v.v4) >= r.set.CIDRsPerVPC:
		return bad("CidrLimitExceeded", "This network '%s' has met its maximum number of allowed CIDRs: %d", v.id, r.set.CIDRsPerVPC)
	}
	b := block{"vpc-cidr-assoc-" + r.hex(), p}
	v.v4 = append(v.v4, b)
	r.addLocal(v, p)
	r.x.text("vpcId", v.id)
	r.x.within("cidrBlockAssociation", func() { r.x.v4Block(b) })
	return nil
}

// disassociateVPCBlock removes a block from a VPC. No subnet may use it.
func disassociateVPCBlock(r *request) error {
	id, err := r.form.want("AssociationId")
	if err != nil {
		return err
	}
	is := func(b block) bool { return b.id == id }
	for _, v := range r.vpcs.order {
		four, six := slices.IndexFunc(v.v4, is), slices.IndexFunc(v.v6, is)
		if four < 0 && six < 0 {
			continue
		}
		if four == 0 {
			return bad("OperationNotPermitted", "The vpc CIDR block with association ID %s may not be disassociated. It is the primary IPv4 CIDR block of the VPC", id)
		}
		b, name := block{}, "cidrBlock"
		if six >= 0 {
			b, name = v.v6[six], "ipv6CidrBlock"
		} else {
			b = v.v4[four]
		}
		for _, s := range r.subnets.order {
			if s.vpc == v && (s.v4.Overlaps(b.prefix) || len(s.v6) > 0 && s.v6[0].prefix.Overlaps(b.prefix)) {
				return bad("InvalidCidrBlock.InUse", "The CIDR block %s is in use by the subnet %s", b.prefix, s.id)
			}
		}
		v.v4, v.v6 = slices.DeleteFunc(v.v4, is), slices.DeleteFunc(v.v6, is)
		for _, t := range r.tables.order {
			if o := t.to[b.prefix]; t.vpc == v && o != nil {
				t.remove(o)
			}
		}
		r.x.text("vpcId", v.id)
		r.unblock(name, b)
		return nil
	}
	return bad("InvalidVpcCidrBlockAssociationID.NotFound", "The vpc CIDR block association ID '%s' does not exist", id)
}

// unblock writes a block that is being disassociated.
func (r *request) unblock(name string, b block) {
	r.x.within(name+"Association", func() {
		r.x.text("associationId", b.id)
		r.x.text(name, b.prefix.String())
		r.x.within(name+"State", func() { r.x.text("state", "disassociating") })
	})
}

// associateSubnetBlock adds an IPv6 block to a subnet.
func associateSubnetBlock(r *request) error {
	s, err := r.subnetOf()
	if err != nil {
		return err
	}
	text, err := r.form.want("Ipv6CidrBlock")
	if err != nil {
		return err
	}
	b, err := r.subnetV6(s.vpc, text)
	if err != nil {
		return err
	}
	if len(s.v6) > 0 {
		return bad("CidrLimitExceeded", "This subnet '%s' has met its maximum number of allowed CIDRs: 1", s.id)
	}
	s.v6 = []block{b}
	r.x.text("subnetId", s.id)
	r.x.within("ipv6CidrBlockAssociation", func() { r.x.v6Block(b, "") })
	return nil
}

// disassociateSubnetBlock removes an IPv6 block from a subnet. No interface may use it.
func disassociateSubnetBlock(r *request) error {
	id, err := r.form.want("AssociationId")
	if err != nil {
		return err
	}
	for _, s := range r.subnets.order {
		if len(s.v6) == 0 || s.v6[0].id != id {
			continue
		}
		if slices.ContainsFunc(r.enis.order, func(n *eni) bool { return n.subnet == s && len(n.v6) > 0 }) {
			return bad("InvalidCidrBlock.InUse", "The CIDR block %s of the subnet %s is in use by an interface", s.v6[0].prefix, s.id)
		}
		b := s.v6[0]
		s.v6, s.assignV6 = nil, false
		r.x.text("subnetId", s.id)
		r.unblock("ipv6CidrBlock", b)
		return nil
	}
	return bad("InvalidSubnetCidrBlockAssociationID.NotFound", "The subnet CIDR block with association ID '%s' does not exist", id)
}

// subnetOf returns the subnet that a request names.
func (r *request) subnetOf() (*subnet, error) {
	return wanted(r, "SubnetId", &r.subnets, noSubnet)
}
