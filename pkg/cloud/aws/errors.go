package aws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// longest is the longest text of an answer that an error quotes, in bytes.
const longest = 400

// kinds are the kinds of AWS's error codes. explain classifies other codes by their endings
// and by the HTTP status.
var kinds = map[string]cloud.Kind{
	"RequestLimitExceeded": cloud.Throttled, "Throttling": cloud.Throttled, "ThrottlingException": cloud.Throttled, "ThrottledException": cloud.Throttled,
	"RequestThrottled": cloud.Throttled, "RequestThrottledException": cloud.Throttled, "TooManyRequestsException": cloud.Throttled, "EC2ThrottledException": cloud.Throttled,
	"SlowDown": cloud.Throttled, "PriorRequestNotComplete": cloud.Throttled, "BandwidthLimitExceeded": cloud.Throttled,

	"UnauthorizedOperation": cloud.Denied, "AccessDenied": cloud.Denied, "AccessDeniedException": cloud.Denied, "OptInRequired": cloud.Denied,
	"PendingVerification": cloud.Denied, "Blocked": cloud.Denied, "RequestExpired": cloud.Denied,
	"AuthFailure": cloud.Denied, "InvalidClientTokenId": cloud.Denied, "UnrecognizedClientException": cloud.Denied, "SignatureDoesNotMatch": cloud.Denied,
	"IncompleteSignature": cloud.Denied, "InvalidSignatureException": cloud.Denied, "MissingAuthenticationToken": cloud.Denied, "ExpiredToken": cloud.Denied, "ExpiredTokenException": cloud.Denied,

	"IdempotentParameterMismatch": cloud.Changed, "InvalidSubnet.Conflict": cloud.Taken,
	"RouteAlreadyExists": cloud.Changed, "IncorrectInstanceState": cloud.Changed, "IncorrectState": cloud.Changed,
	"DependencyViolation": cloud.Taken, "ResourceAlreadyAssociated": cloud.Taken,
	"DuplicateLoadBalancerName": cloud.Changed, "DuplicateTargetGroupName": cloud.Changed, "DuplicateListener": cloud.Changed, "InvalidGroup.Duplicate": cloud.Changed,
	"TargetGroupAssociationLimit": cloud.Taken,

	"InternalError": cloud.Unavailable, "InternalFailure": cloud.Unavailable, "ServiceUnavailable": cloud.Unavailable, "Unavailable": cloud.Unavailable, "RequestTimeout": cloud.Unavailable,
	"RequestTimeoutException": cloud.Unavailable, "ServerInternal": cloud.Unavailable,
}

// identity are the error codes about credentials, each with the reason and the fix. AWS's own
// text for some of them quotes the headers of the request, with the session token. It is never
// shown.
var identity = map[string]string{
	"AuthFailure":                 "the credentials are not valid; check the access key, or the role that the program assumes",
	"InvalidClientTokenId":        "the access key is unknown to AWS; check the access key, or the role that the program assumes",
	"UnrecognizedClientException": "the access key is unknown to AWS; check the access key, or the role that the program assumes",
	"SignatureDoesNotMatch":       "the secret key does not belong to the access key; check both",
	"InvalidSignatureException":   "the signature is not valid; check the secret key and this host's clock",
	"IncompleteSignature":         "the signature is not complete; check the credentials",
	"MissingAuthenticationToken":  "the request has no credentials; check the credentials",
	"ExpiredToken":                "the session token has expired; renew the credentials, or let the program assume a role",
	"ExpiredTokenException":       "the session token has expired; renew the credentials, or let the program assume a role",
	"RequestExpired":              "the request is too old for AWS; set this host's clock",
}

// fixes are the fixes for errors of load balancing.
var fixes = map[string]string{
	"TooManyLoadBalancers":                   "ask AWS for a higher quota of network load balancers per region (L-69A177A2), or delete some",
	"TooManyTargetGroups":                    "ask AWS for a higher quota of target groups per region (L-B22855CB), or delete some",
	"TooManyListeners":                       "ask AWS for a higher quota of listeners per network load balancer (L-57A373D6), or use fewer ports in the Service",
	"TooManyTargets":                         "ask AWS for a higher quota of targets, or use fewer Nodes as targets",
	"DuplicateLoadBalancerName":              "rename or delete the other load balancer of this name",
	"DuplicateTargetGroupName":               "rename or delete the other target group of this name",
	"DuplicateListener":                      "delete the other listener of this port; a network load balancer has TCP and UDP of one port in one listener, TCP_UDP",
	"InvalidGroup.Duplicate":                 "rename or delete the other security group of this name in the VPC",
	"TargetGroupAssociationLimit":            "remove the target group from the other load balancer",
	"OperationNotPermitted":                  "if its deletion protection is on, turn it off (deletion_protection.enabled)",
	"RulesPerSecurityGroupLimitExceeded":     "ask AWS for a higher quota of rules per security group (L-0EA8095F), or use fewer source ranges and ports",
	"SecurityGroupLimitExceeded":             "ask AWS for a higher quota of security groups per region (L-E79EC296), or delete some",
	"VpcLimitExceeded":                       "ask AWS for a higher quota of VPCs per region (L-F678F1CE), or delete some",
	"SubnetLimitExceeded":                    "ask AWS for a higher quota of subnets per VPC (L-407747CB), or delete some",
	"InternetGatewayLimitExceeded":           "ask AWS for a higher quota of internet gateways per region (L-A4707A72), or delete some",
	"EgressOnlyInternetGatewayLimitExceeded": "ask AWS for a higher quota of egress-only internet gateways per region (L-45FE3B85), or delete some",
	"AddressLimitExceeded":                   "ask AWS for a higher quota of elastic addresses per region (L-0263D0A3), or release some",
	"NatGatewayLimitExceeded":                "ask AWS for a higher quota of NAT gateways per availability zone (L-FE5A380F), or delete some",
	"RouteTableLimitExceeded":                "ask AWS for a higher quota of route tables per VPC (L-589F43AA), or delete some",
	"VpcEndpointLimitExceeded":               "ask AWS for a higher quota of gateway endpoints per region (L-1B52E74A), or delete some",
	"CertificateNotFound":                    "use a certificate that exists in ACM in this region",
}

// explain returns err as a *cloud.Error with the fix.
func explain(action string, err error) error {
	if err == nil {
		return nil
	}
	answered, failed := errors.AsType[smithy.APIError](err)
	if _, why, about := strings.Cut(err.Error(), "get identity: "); about {
		return withoutIdentity(action, answered, withoutRequest(why, err), requestOf(err))
	}
	if !failed {
		return unanswered(action, err)
	}
	code, kind, after := clip(answered.ErrorCode()), cloud.Refused, time.Duration(0)
	status := 0
	if r, ok := errors.AsType[*awshttp.ResponseError](err); ok {
		status = r.HTTPStatusCode()
		if r.Response != nil {
			after = retryAfter(r.Response.Header)
		}
	}
	named, known := kinds[code]
	switch {
	case known:
		kind = named
	case strings.HasSuffix(code, "NotFound") || strings.HasSuffix(code, "NotFoundException"):
		kind = cloud.Missing
	case strings.HasSuffix(code, "LimitExceeded") || strings.HasPrefix(code, "TooMany"):
		kind = cloud.Full
	case strings.HasSuffix(code, "InUse"):
		kind = cloud.Taken
	case status == http.StatusTooManyRequests:
		kind = cloud.Throttled
	case status >= 500:
		kind = cloud.Unavailable
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		kind = cloud.Denied
	}
	text := fmt.Sprintf("%.80s: %s", code, clip(answered.ErrorMessage()))
	switch hint, about := identity[code]; {
	case about:
		text = code + ": " + hint
	case kind == cloud.Denied:
		text += fmt.Sprintf("; allow %s in the IAM policy of the identity that the program uses", permission(action))
	case kind == cloud.Throttled:
		text += "; the account has used up its request rate, in this program or in others; slowing down"
	case kind == cloud.Full && code == "RouteLimitExceeded":
		text += "; ask AWS for a higher quota of routes per route table (L-93826ACB)"
	case fixes[code] != "":
		text += "; " + fixes[code]
	}
	return &cloud.Error{Kind: kind, Action: action, Text: text, After: after, Request: requestOf(err)}
}

// requestOf returns the ID of the request that was answered with err, or "".
func requestOf(err error) string {
	if r, ok := errors.AsType[*awshttp.ResponseError](err); ok {
		return fmt.Sprintf("%.64s", clip(r.ServiceRequestID()))
	}
	return ""
}

// withoutRequest removes the ID of the request from a text of the SDK.
func withoutRequest(text string, err error) string {
	if r, ok := errors.AsType[*awshttp.ResponseError](err); ok {
		return strings.ReplaceAll(text, ", RequestID: "+r.ServiceRequestID(), "")
	}
	return text
}

// withoutIdentity returns the error for a request without credentials to sign it. answered is
// the error of the service that refused the credentials, or nil, and request the ID of that request.
func withoutIdentity(action string, answered smithy.APIError, why, request string) error {
	kind, why := cloud.Denied, clip(strings.TrimPrefix(why, "get credentials: "))
	if answered != nil {
		if k := kinds[answered.ErrorCode()]; k == cloud.Throttled {
			kind = k
		}
		if hint, about := identity[answered.ErrorCode()]; about {
			why = answered.ErrorCode() + ": " + hint
		}
	}
	return &cloud.Error{Kind: kind, Action: action, Text: "no credentials: " + why + "; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the pod or the instance a role", Request: request}
}

// unanswered returns the error for a request that got no answer from the API.
func unanswered(action string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &cloud.Error{Kind: cloud.Unavailable, Action: action, Text: "no answer in time; check the network to the API, such as its endpoint in the VPC"}
	}
	// These include a truncated answer, and one that is not XML.
	return &cloud.Error{Kind: cloud.Unavailable, Action: action, Text: clip(withoutRequest(err.Error(), err)), Request: requestOf(err)}
}

// clip removes unprintable characters from a text of the API, and limits its length.
func clip(text string) string {
	text, _, _ = strings.Cut(text, " Encoded authorization failure message")
	text = strings.ToValidUTF8(strings.TrimSpace(text), "?")
	text = strings.TrimSuffix(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text), ".")
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}

// permission returns the name of an action in an IAM policy.
func permission(action string) string {
	switch {
	case action == getQuota:
		return "servicequotas:" + action
	case balancing[action]:
		return "elasticloadbalancing:" + action
	}
	return "ec2:" + action
}

// retryAfter returns how long the server asks clients to wait.
func retryAfter(h http.Header) time.Duration {
	d, err := time.ParseDuration(h.Get("Retry-After") + "s")
	if err != nil || d < 0 {
		return 0
	}
	return min(d, 5*time.Minute)
}
