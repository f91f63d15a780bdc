package awstest

import (
	"encoding/json"
	"strings"
)

// parseJSON reads a request of the JSON protocol as a form: the action that its header
// names, and the texts of its body.
func parseJSON(target string, body []byte) (*form, *Error) {
	var fields map[string]any
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, bad("SerializationException", "The request is not JSON: %v", err)
	}
	_, action, _ := strings.Cut(target, ".")
	f := &form{kids: map[string]*form{"Action": {value: action, set: true}}}
	for name, value := range fields {
		if text, ok := value.(string); ok {
			f.kids[name] = &form{value: text, set: true}
		}
	}
	return f, nil
}

// quota is a quota of Service Quotas.
type quota struct {
	name string
	of   func(*Settings) int
}

// quotas are by service and code.
var quotas = map[[2]string]quota{
	{"vpc", "L-93826ACB"}:                  {"Routes per route table", func(s *Settings) int { return s.RoutesPerTable }},
	{"vpc", "L-589F43AA"}:                  {"Route tables per VPC", func(s *Settings) int { return s.TablesPerVPC }},
	{"vpc", "L-F678F1CE"}:                  {"VPCs per Region", func(s *Settings) int { return s.VPCs }},
	{"vpc", "L-407747CB"}:                  {"Subnets per VPC", func(s *Settings) int { return s.SubnetsPerVPC }},
	{"vpc", "L-83CA0A9D"}:                  {"IPv4 CIDR blocks per VPC", func(s *Settings) int { return s.CIDRsPerVPC }},
	{"vpc", "L-A4707A72"}:                  {"Internet gateways per Region", func(s *Settings) int { return s.Gateways }},
	{"vpc", "L-FE5A380F"}:                  {"NAT gateways per Availability Zone", func(s *Settings) int { return s.NATsPerZone }},
	{"vpc", "L-0EA8095F"}:                  {"Inbound or outbound rules per security group", func(s *Settings) int { return s.RulesPerGroup }},
	{"vpc", "L-2AFB9258"}:                  {"Security groups per network interface", func(s *Settings) int { return s.GroupsPerInterface }},
	{"ec2", "L-0263D0A3"}:                  {"EC2-VPC Elastic IPs", func(s *Settings) int { return s.Addresses }},
	{"elasticloadbalancing", "L-69A177A2"}: {"Network Load Balancers per Region", func(s *Settings) int { return s.Balancers }},
	{"elasticloadbalancing", "L-B22855CB"}: {"Target Groups per Region", func(s *Settings) int { return s.TargetGroups }},
	{"elasticloadbalancing", "L-57A373D6"}: {"Listeners per Network Load Balancer", func(s *Settings) int { return s.ListenersPerBalancer }},
}

// getServiceQuota answers with a quota from the settings.
func getServiceQuota(r *request) error {
	service, code := r.form.text("ServiceCode"), r.form.text("QuotaCode")
	q, ok := quotas[[2]string{service, code}]
	if !ok {
		return bad("NoSuchResourceException", "The request failed because the specified service or quota does not exist: %s %s", service, code)
	}
	text, err := json.Marshal(map[string]any{"Quota": map[string]any{
		"ServiceCode": service, "ServiceName": service, "QuotaCode": code, "QuotaName": q.name, "Value": float64(q.of(&r.set)), "Unit": "None",
		"QuotaArn": r.arn(quotasService, service+"/"+code), "Adjustable": true, "GlobalQuota": false,
	}})
	r.x.b = append(r.x.b, text...)
	return err
}
