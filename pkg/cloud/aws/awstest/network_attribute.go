package awstest

// attribute returns the attribute that a request changes. A request may change only one.
func (r *request) attribute(names ...string) (string, error) {
	given := ""
	for _, name := range names {
		switch {
		case !r.form.has(name):
		case given != "":
			return "", bad("InvalidParameterCombination", "Fields for multiple attribute types specified")
		default:
			given = name
		}
	}
	if given == "" {
		return "", bad("InvalidParameterCombination", "No attributes specified.")
	}
	return given, nil
}

func modifyVPC(r *request) error {
	v, err := wanted(r, "VpcId", &r.vpcs, noVPC)
	if err != nil {
		return err
	}
	name, err := r.attribute("EnableDnsSupport", "EnableDnsHostnames", "EnableNetworkAddressUsageMetrics")
	if err != nil {
		return err
	}
	on, err := r.form.at(name).truth("Value", false)
	if err != nil {
		return err
	}
	switch {
	case name == "EnableDnsSupport":
		v.dnsSupport = on
	case name == "EnableNetworkAddressUsageMetrics":
		v.usage = on
	case on && !v.dnsSupport:
		return bad("InvalidParameterCombination", "DNS hostnames cannot be enabled for the VPC '%s' while DNS support is disabled", v.id)
	default:
		v.dnsHostnames = on
	}
	r.x.flag("return", true)
	return nil
}

func describeVPCAttribute(r *request) error {
	v, err := wanted(r, "VpcId", &r.vpcs, noVPC)
	if err != nil {
		return err
	}
	name := r.form.text("Attribute")
	on, ok := map[string]bool{"enableDnsSupport": v.dnsSupport, "enableDnsHostnames": v.dnsHostnames, "enableNetworkAddressUsageMetrics": v.usage}[name]
	if !ok {
		return bad("InvalidParameterValue", "Value (%s) for parameter attribute is invalid. Unknown attribute.", name)
	}
	r.x.text("vpcId", v.id)
	r.x.within(name, func() { r.x.flag("value", on) })
	return nil
}

func modifySubnet(r *request) error {
	s, err := r.subnetOf()
	if err != nil {
		return err
	}
	name, err := r.attribute("MapPublicIpOnLaunch", "AssignIpv6AddressOnCreation", "EnableDns64", "PrivateDnsHostnameTypeOnLaunch", "EnableResourceNameDnsARecordOnLaunch", "EnableResourceNameDnsAAAARecordOnLaunch")
	if err != nil {
		return err
	}
	on, err := r.form.at(name).truth("Value", false)
	if err != nil {
		return err
	}
	switch name {
	case "MapPublicIpOnLaunch":
		s.public = on
	case "AssignIpv6AddressOnCreation":
		if on && len(s.v6) == 0 {
			return bad("InvalidParameterValue", "Invalid value 'true' for assignIpv6AddressOnCreation. The subnet '%s' has no IPv6 CIDR block", s.id)
		}
		s.assignV6 = on
	case "EnableDns64":
		s.dns64 = on
	case "EnableResourceNameDnsARecordOnLaunch":
		s.aRecord = on
	case "EnableResourceNameDnsAAAARecordOnLaunch":
		s.aaaaRecord = on
	default:
		kind := r.form.text(name)
		if kind != "ip-name" && kind != "resource-name" {
			return bad("InvalidParameterValue", "Value (%s) for parameter privateDnsHostnameTypeOnLaunch is invalid.", kind)
		}
		s.byName = kind == "resource-name"
	}
	r.x.flag("return", true)
	return nil
}
