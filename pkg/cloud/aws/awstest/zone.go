package awstest

import "strings"

// zone is an availability zone.
type zone struct{ name, id string }

// zonesOf returns three zones of a region. Their IDs are the same for all accounts.
func zonesOf(region string) []zone {
	short := ""
	for _, part := range strings.Split(region, "-") {
		switch part {
		case "northeast", "northwest", "southeast", "southwest":
			short += part[:1] + part[5:6]
		default:
			short += part[:min(1, len(part))]
			if part == "eu" || part == "us" || part == "ap" || part == "sa" || part == "ca" || part == "me" || part == "af" || part == "il" {
				short += part[1:]
			}
		}
	}
	return []zone{{region + "a", short + "-az2"}, {region + "b", short + "-az3"}, {region + "c", short + "-az1"}}
}

func (a *account) zone(name string) (zone, bool) {
	for _, z := range a.zones {
		if z.name == name || z.id == name {
			return z, true
		}
	}
	return zone{}, false
}

// describeZones answers with the zones of the region, without pages: they are few.
func describeZones(r *request) error {
	names, ids := r.form.texts("ZoneName"), r.form.texts("ZoneId")
	for _, n := range append(append([]string(nil), names...), ids...) {
		if _, ok := r.zone(n); !ok {
			return bad("InvalidParameterValue", "Invalid availability zone: [%s]", n)
		}
	}
	s := shelf[*zoneObject]{}
	for i, z := range r.zones {
		wanted := len(names)+len(ids) == 0
		for _, n := range append(append([]string(nil), names...), ids...) {
			wanted = wanted || n == z.name || n == z.id
		}
		if wanted {
			s.add(&zoneObject{meta{id: z.name, seq: i + 1}, z})
		}
	}
	return describe(r, &s, &kind[*zoneObject]{
		set: "availabilityZoneInfo", least: 1, most: 100,
		by: attributes[*zoneObject]{
			"zone-name":     func(_ *request, z *zoneObject) []string { return one(z.name) },
			"zone-id":       func(_ *request, z *zoneObject) []string { return one(z.zone.id) },
			"region-name":   func(r *request, _ *zoneObject) []string { return one(r.region) },
			"state":         func(*request, *zoneObject) []string { return one("available") },
			"opt-in-status": func(*request, *zoneObject) []string { return one("opt-in-not-required") },
			"zone-type":     func(*request, *zoneObject) []string { return one("availability-zone") },
			"group-name":    func(r *request, _ *zoneObject) []string { return one(r.region) },
		},
		write: func(r *request, z *zoneObject) {
			r.x.text("zoneName", z.name)
			r.x.text("zoneId", z.zone.id)
			r.x.text("zoneState", "available")
			r.x.text("regionName", r.region)
			r.x.text("groupName", r.region)
			r.x.text("networkBorderGroup", r.region)
			r.x.text("optInStatus", "opt-in-not-required")
			r.x.text("zoneType", "availability-zone")
			r.x.open("messageSet")
			r.x.close("messageSet")
		},
	})
}

// zoneObject is a zone as an object of describe.
type zoneObject struct {
	meta
	zone
}
