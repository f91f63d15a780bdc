package awstest

import "slices"

// deleteVPC deletes a VPC that holds only its default objects.
func deleteVPC(r *request) error {
	v, err := wanted(r, "VpcId", &r.vpcs, noVPC)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(r.subnets.order, func(s *subnet) bool { return s.vpc == v }) ||
		slices.ContainsFunc(r.tables.order, func(t *table) bool { return t.vpc == v && t != v.main }) ||
		slices.ContainsFunc(r.groups.order, func(g *group) bool { return g.vpc == v && g != v.group }) ||
		slices.ContainsFunc(r.igws.order, func(g *igw) bool { return g.vpc == v }) ||
		slices.ContainsFunc(r.egresses.order, func(g *egress) bool { return g.vpc == v }) ||
		slices.ContainsFunc(r.endpoints.order, func(e *endpoint) bool { return e.vpc == v }) {
		return bad("DependencyViolation", "The vpc '%s' has dependencies and cannot be deleted.", v.id)
	}
	r.tables.remove(v.main)
	r.groups.remove(v.group)
	r.vpcs.remove(v)
	r.x.flag("return", true)
	return nil
}

// deleteSubnet deletes a subnet without interfaces, and its association.
func deleteSubnet(r *request) error {
	s, err := wanted(r, "SubnetId", &r.subnets, noSubnet)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(r.enis.order, func(n *eni) bool { return n.subnet == s }) {
		return bad("DependencyViolation", "The subnet '%s' has dependencies and cannot be deleted.", s.id)
	}
	if t, old := r.tableFor(s); old != nil {
		t.associations = slices.DeleteFunc(t.associations, func(a *association) bool { return a == old })
	}
	r.subnets.remove(s)
	r.x.flag("return", true)
	return nil
}

// deleteTable deletes a table. It must be neither a main table nor associated.
func deleteTable(r *request) error {
	t, err := r.tableOf("RouteTableId")
	if err != nil {
		return err
	}
	if len(t.associations) > 0 {
		return bad("DependencyViolation", "The routeTable '%s' has dependencies and cannot be deleted.", t.id)
	}
	r.tables.remove(t)
	r.x.flag("return", true)
	return nil
}

func disassociateTable(r *request) error {
	id, err := r.form.want("AssociationId")
	if err != nil {
		return err
	}
	for _, t := range r.tables.order {
		i := slices.IndexFunc(t.associations, func(a *association) bool { return a.id == id })
		if i < 0 {
			continue
		}
		if t.associations[i].main {
			return bad("InvalidParameterValue", "cannot disassociate the main route table association %s", id)
		}
		t.associations = slices.Delete(t.associations, i, i+1)
		r.x.flag("return", true)
		return nil
	}
	return bad("InvalidAssociationID.NotFound", "The association ID '%s' does not exist", id)
}
