package awstest

import "slices"

// replaceAssociation moves a subnet, a gateway, or a VPC's main association to another
// table. The association gets a new ID.
func replaceAssociation(r *request) error {
	id, err := r.form.want("AssociationId")
	if err != nil {
		return err
	}
	t, err := r.tableOf("RouteTableId")
	if err != nil {
		return err
	}
	for _, from := range r.tables.order {
		i := slices.IndexFunc(from.associations, func(a *association) bool { return a.id == id })
		if i < 0 {
			continue
		}
		a := from.associations[i]
		if from.vpc != t.vpc {
			return bad("InvalidParameterValue", "The association %s and route table %s belong to different networks", id, t.id)
		}
		if from != t {
			from.associations = slices.Delete(from.associations, i, i+1)
			moved := *a
			moved.id = "rtbassoc-" + r.hex()
			t.associations = append(t.associations, &moved)
			if a = &moved; a.main {
				t.vpc.main = t
			}
		}
		r.associated("newAssociationId", a.id)
		return nil
	}
	return bad("InvalidAssociationID.NotFound", "The association ID '%s' does not exist", id)
}
