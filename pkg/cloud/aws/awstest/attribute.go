package awstest

import "strconv"

func itoa(n int) string { return strconv.Itoa(n) }

// instanceOf returns the instance that a request names.
func (r *request) instanceOf() (*instance, error) {
	id, err := r.form.want("InstanceId")
	if err != nil {
		return nil, err
	}
	if !wellFormed(id, "i-") {
		return nil, bad("InvalidInstanceID.Malformed", "Invalid id: \"%s\"", id)
	}
	return named(r, &r.instances, id, noInstance)
}

// modifyInstance changes one attribute.
func modifyInstance(r *request) error {
	i, err := r.instanceOf()
	if err != nil {
		return err
	}
	if len(i.enis) == 0 {
		return bad("IncorrectInstanceState", "The instance '%s' is not in a state from which its attributes can be changed: %s.", i.id, i.state.name)
	}
	switch f := r.form; {
	case f.has("SourceDestCheck"):
		if len(i.enis) > 1 {
			return bad("InvalidInstanceID", "There are multiple interfaces attached to instance '%s'. Please specify an interface ID for the operation instead.", i.id)
		}
		i.enis[0].check, err = f.at("SourceDestCheck").truth("Value", i.enis[0].check)
	case f.has("DisableApiTermination"):
		i.protected, err = f.at("DisableApiTermination").truth("Value", i.protected)
	case f.has("InstanceType"):
		if i.state != stopped {
			return bad("IncorrectInstanceState", "The instance '%s' is not in the 'stopped' state.", i.id)
		}
		i.itype = f.at("InstanceType").text("Value")
	case f.has("GroupId"):
		var all []*group
		if all, err = r.groupsOf(i.subnet.vpc, f.texts("GroupId")); err == nil {
			i.enis[0].groups = all
		}
	default:
		return bad("InvalidParameterCombination", "No attributes specified.")
	}
	if err != nil {
		return err
	}
	r.x.flag("return", true)
	return nil
}

// describeInstanceAttribute answers with one attribute.
func describeInstanceAttribute(r *request) error {
	i, err := r.instanceOf()
	if err != nil {
		return err
	}
	x := r.x
	x.text("instanceId", i.id)
	switch name := r.form.text("Attribute"); name {
	case "sourceDestCheck":
		if len(i.enis) > 0 {
			x.within(name, func() { x.flag("value", i.enis[0].check) })
		}
	case "disableApiTermination":
		x.within(name, func() { x.flag("value", i.protected) })
	case "instanceType":
		x.within(name, func() { x.always("value", i.itype) })
	case "groupSet":
		if len(i.enis) > 0 {
			x.groups(i.enis[0].groups)
		}
	case "userData":
		x.open(name)
		x.close(name)
	default:
		return bad("InvalidParameterValue", "Value (%s) for parameter attribute is invalid. Unknown attribute.", name)
	}
	return nil
}
