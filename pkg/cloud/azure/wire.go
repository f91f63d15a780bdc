package azure

import "strings"

// machine is a virtual machine, or an instance of a scale set, in Azure's answers.
type machine struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Location string   `json:"location"`
	Zones    []string `json:"zones"`
	SKU      struct {
		Name string `json:"name"`
	} `json:"sku"` // of an instance of a scale set
	Properties struct {
		VMID     string `json:"vmId"`
		Hardware struct {
			Size string `json:"vmSize"`
		} `json:"hardwareProfile"`
		OS struct {
			ComputerName string `json:"computerName"`
		} `json:"osProfile"`
		Network struct {
			Interfaces []interfaceRef `json:"networkInterfaces"`
		} `json:"networkProfile"`
		View              *view  `json:"instanceView"`
		ProvisioningState string `json:"provisioningState"`
		Created           string `json:"timeCreated"`
	} `json:"properties"`
}

// view is what Azure knows of a machine at run time.
type view struct {
	FaultDomain *int `json:"platformFaultDomain"`
	Statuses    []struct {
		Code string `json:"code"`
	} `json:"statuses"`
}

// interfaceRef names an interface of a machine.
type interfaceRef struct {
	ID         string `json:"id"`
	Properties struct {
		Primary *bool `json:"primary"`
	} `json:"properties"`
}

// primary returns the ID of the primary interface, or "".
func (m machine) primary() string {
	all := m.Properties.Network.Interfaces
	for _, n := range all {
		if p := n.Properties.Primary; p != nil && *p || len(all) == 1 {
			return n.ID
		}
	}
	return ""
}

// networkInterface is a network interface in Azure's answers.
type networkInterface struct {
	ID         string `json:"id"`
	Properties struct {
		Forwarding bool `json:"enableIPForwarding"`
		Configs    []struct {
			Properties struct {
				Primary bool    `json:"primary"`
				Address string  `json:"privateIPAddress"`
				Subnet  subRef  `json:"subnet"`
				Public  *subRef `json:"publicIPAddress"`
			} `json:"properties"`
		} `json:"ipConfigurations"`
	} `json:"properties"`
}

// subRef names another resource.
type subRef struct {
	ID string `json:"id"`
}

// publicIPs returns the IDs of the interface's public addresses.
func (n networkInterface) publicIPs() (all []string) {
	for _, c := range n.Properties.Configs {
		if p := c.Properties.Public; p != nil && p.ID != "" {
			all = append(all, p.ID)
		}
	}
	return all
}

// publicIP is a public address in Azure's answers.
type publicIP struct {
	ID         string `json:"id"`
	Properties struct {
		Address string `json:"ipAddress"`
	} `json:"properties"`
}

// scaleSet is a scale set in Azure's answers.
type scaleSet struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Properties struct {
		Mode string `json:"orchestrationMode"`
	} `json:"properties"`
}

// isUniform reports whether the instances of a scale set are no virtual machines of their
// own. Older scale sets name no mode.
func (s scaleSet) isUniform() bool { return !strings.EqualFold(s.Properties.Mode, "Flexible") }
