package azuretest

import (
	"fmt"
	"strings"
)

// Machine is a machine to add.
type Machine struct {
	Name string // of the machine; its Node has it in small letters
	// Set makes it an instance of a scale set, with this number.
	Set    string
	Number int
	Zone   string
	// IPv4 and IPv6 are its private addresses, and Public is a public one.
	IPv4, IPv6, Public string
	Forwards           bool
}

// path returns the path of the machine.
func (m Machine) path() string {
	if m.Set != "" {
		return in(compute, "virtualMachineScaleSets", m.Set, "virtualMachines", fmt.Sprint(m.Number))
	}
	return in(compute, "virtualMachines", m.Name)
}

func (m Machine) nicPath() string {
	if m.Set != "" {
		return m.path() + "/networkInterfaces/nic"
	}
	return in(network, "networkInterfaces", m.Name+"-nic")
}

// ProviderID returns the provider ID of the machine's Node, as Azure's own controller
// writes it.
func (m Machine) ProviderID() string {
	return "azure://" + strings.Replace(m.path(), "/"+Group+"/", "/"+strings.ToLower(Group)+"/", 1)
}

// Add adds a machine that runs.
func (s *Server) Add(m Machine) Machine {
	s.Do(func() {
		primary := Object{"primary": true}
		p := Object{
			"vmId": m.Name, "hardwareProfile": Object{"vmSize": "Standard_D4s_v5"}, "osProfile": Object{"computerName": m.Name}, "timeCreated": "2026-01-02T03:04:05Z",
			"networkProfile": Object{"networkInterfaces": []any{Object{"id": m.nicPath(), "properties": primary}}},
			"instanceView":   view("running"),
		}
		o := Object{"name": m.Name, "location": Location, "properties": p}
		if m.Zone != "" {
			o["zones"] = []any{m.Zone}
		}
		if m.Set != "" {
			o["sku"] = Object{"name": "Standard_D2s_v5"}
			delete(p, "hardwareProfile")
			s.put(in(compute, "virtualMachineScaleSets", m.Set), Object{"name": m.Set, "location": Location, "properties": Object{"orchestrationMode": "Uniform"}})
		}
		s.put(m.path(), o)
		var configs []any
		for i, a := range []string{m.IPv4, m.IPv6} {
			if a == "" {
				continue
			}
			config := Object{"primary": i == 0 || m.IPv4 == "", "privateIPAddress": a, "subnet": Object{"id": in(network, "virtualNetworks", "net", "subnets", "nodes")}}
			if i == 0 && m.Public != "" {
				at := in(network, "publicIPAddresses", m.Name)
				if m.Set != "" {
					at = m.nicPath() + "/ipConfigurations/a/publicIPAddresses/" + m.Name
				}
				config["publicIPAddress"] = Object{"id": at}
				s.put(at, Object{"name": m.Name, "properties": Object{"ipAddress": m.Public}})
			}
			configs = append(configs, Object{"name": fmt.Sprint("config", i), "properties": config})
		}
		s.put(m.nicPath(), Object{"name": m.Name + "-nic", "location": Location, "properties": Object{"enableIPForwarding": m.Forwards, "ipConfigurations": configs, "unknown": "kept"}})
	})
	return m
}

func view(power string) Object {
	return Object{"statuses": []any{Object{"code": "ProvisioningState/succeeded"}, Object{"code": "PowerState/" + power}}}
}

// SetPower sets the power state of a machine.
func (s *Server) SetPower(m Machine, power string) {
	s.Do(func() { s.properties(m.path())["instanceView"] = view(power) })
}

// Set sets a property of a machine.
func (s *Server) Set(m Machine, name string, value any) {
	s.Do(func() { s.properties(m.path())[name] = value })
}

func (s *Server) properties(path string) Object {
	return s.resources[strings.ToLower(path)]["properties"].(Object)
}

// Remove removes a machine and its interface.
func (s *Server) Remove(m Machine) {
	s.Do(func() {
		delete(s.resources, strings.ToLower(m.path()))
		delete(s.resources, strings.ToLower(m.nicPath()))
	})
}

// Forwards reports whether a machine's interface forwards packets.
func (s *Server) Forwards(m Machine) (is bool) {
	s.Do(func() { is = s.properties(m.nicPath())["enableIPForwarding"] == true })
	return is
}

// Resource returns what Azure shows of the route table.
func (s *Server) Resource() (o Object) {
	s.Do(func() { o = copied(s.resources[strings.ToLower(s.tablePath())]) })
	return o
}

// Routes returns the next hops of the table's routes by destination, and their names.
func (s *Server) Routes() (hops, names map[string]string) {
	hops, names = make(map[string]string), make(map[string]string)
	for _, item := range s.Resource()["properties"].(Object)["routes"].([]any) {
		r := item.(Object)
		p := r["properties"].(Object)
		to := fmt.Sprint(p["addressPrefix"])
		hops[to], names[to] = fmt.Sprint(p["nextHopType"]), fmt.Sprint(r["name"])
		if hop, is := p["nextHopIpAddress"].(string); is {
			hops[to] = hop
		}
	}
	return hops, names
}

// SetRoute writes a route of another program, in place of one with this destination. A
// hop that is "" removes it, and one that is no address is the type of the next hop.
func (s *Server) SetRoute(name, to, hop string) {
	s.Do(func() {
		o := s.resources[strings.ToLower(s.tablePath())]
		p := o["properties"].(Object)
		var routes []any
		for _, item := range p["routes"].([]any) {
			if item.(Object)["properties"].(Object)["addressPrefix"] != to {
				routes = append(routes, item)
			}
		}
		of := Object{"addressPrefix": to, "nextHopType": hop, "mark": "foreign"}
		if strings.ContainsAny(hop, ".:") {
			of["nextHopType"], of["nextHopIpAddress"] = "VirtualAppliance", hop
		}
		if hop != "" {
			routes = append(routes, Object{"name": name, "properties": of})
		}
		if p["routes"] = routes; routes == nil {
			p["routes"] = []any{}
		}
		s.put(s.tablePath(), o)
	})
}
