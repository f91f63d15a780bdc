package aws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// refused returns the SDK's error for an answer of the API.
func refused(status int, code, message string, header http.Header) error {
	return &smithy.OperationError{ServiceID: "EC2", OperationName: "CreateRoute", Err: &awshttp.ResponseError{
		RequestID: "req-1",
		ResponseError: &smithyhttp.ResponseError{
			Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status, Header: header}},
			Err:      &smithy.GenericAPIError{Code: code, Message: message},
		},
	}}
}

func TestAPIErrorsHaveAKindAndAFix(t *testing.T) {
	for _, test := range []struct {
		status        int
		code, message string
		kind          cloud.Kind
		says          string
	}{
		{503, "RequestLimitExceeded", "Request limit exceeded.", cloud.Throttled, "slowing down"},
		{400, "Throttling", "Rate exceeded", cloud.Throttled, "slowing down"},
		{429, "Odd", "no", cloud.Throttled, "slowing down"},
		{403, "UnauthorizedOperation", "You are not authorized. Encoded authorization failure message: c2VjcmV0", cloud.Denied, "allow ec2:CreateRoute in the IAM policy"},
		{403, "Odd", "no", cloud.Denied, "allow ec2:CreateRoute"},
		{401, "AuthFailure", "AWS was not able to validate the credentials", cloud.Denied, "check the access key"},
		{403, "SignatureDoesNotMatch", "The Canonical String was x-amz-security-token:c2VjcmV0", cloud.Denied, "the secret key does not belong to the access key"},
		{400, "ExpiredToken", "The token c2VjcmV0 is expired", cloud.Denied, "renew the credentials"},
		{400, "RequestExpired", "Request has expired.", cloud.Denied, "set this host's clock"},
		{400, "InvalidRouteTableID.NotFound", "The routeTable ID 'rtb-1' does not exist", cloud.Missing, "rtb-1"},
		{400, "InvalidInstanceID.NotFound", "no", cloud.Missing, ""},
		{400, "RouteAlreadyExists", "The route identified by 10.4.0.0/24 already exists.", cloud.Changed, "10.4.0.0/24"},
		{400, "RouteLimitExceeded", "The maximum number of routes has been reached.", cloud.Full, "L-93826ACB"},
		{400, "AddressLimitExceeded", "no", cloud.Full, ""},
		{400, "InvalidIPAddress.InUse", "no", cloud.Taken, ""},
		{400, "InvalidParameterValue", "Value (x) is invalid.", cloud.Refused, "Value (x) is invalid"},
		{500, "InternalError", "An internal error has occurred", cloud.Unavailable, ""},
		{502, "Odd", "no", cloud.Unavailable, ""},
		{400, "Bad\x1b[31m", "red\x1b[31m\n" + strings.Repeat("x", 9999), cloud.Refused, "red"},
	} {
		err := explain(createRoute, refused(test.status, test.code, test.message, nil))
		text := err.Error()
		if cloud.KindOf(err) != test.kind || !strings.Contains(text, test.says) || !strings.Contains(text, "request req-1") {
			t.Errorf("%s: %s: %v", test.code, cloud.KindOf(err), err)
		}
		if strings.Contains(text, "c2VjcmV0") || strings.ContainsAny(text, "\x1b\n") || len(text) > 900 {
			t.Errorf("%s shows too much: %q", test.code, text)
		}
	}
	err := explain(createRoute, refused(503, "Throttling", "no", http.Header{"Retry-After": {"7"}}))
	if e, ok := errors.AsType[*cloud.Error](err); !ok || e.After != 7*time.Second {
		t.Errorf("%+v", err)
	}
	if err := explain(getQuota, refused(400, "AccessDeniedException", "no", nil)); !strings.Contains(err.Error(), "allow servicequotas:GetServiceQuota") {
		t.Errorf("%v", err)
	}
	if explain(createRoute, nil) != nil {
		t.Error("no error is one")
	}
}

func TestUnansweredRequestsHaveAKindAndAFix(t *testing.T) {
	for _, test := range []struct {
		err  error
		kind cloud.Kind
		says string
	}{
		{errors.New("dial tcp 10.0.0.1:443: connection refused"), cloud.Unavailable, "connection refused"},
		{fmt.Errorf("send: %w", context.DeadlineExceeded), cloud.Unavailable, "check the network to the API"},
		{errors.New("operation error EC2: DescribeInstances, get identity: get credentials: failed to refresh cached credentials, no EC2 IMDS role found"), cloud.Denied, "give the pod or the instance a role"},
		{fmt.Errorf("operation error EC2: DescribeInstances, get identity: get credentials: %w", refused(403, "AccessDenied", "Not authorized to perform sts:AssumeRole", nil)), cloud.Denied, "sts:AssumeRole"},
		{fmt.Errorf("operation error EC2: DescribeInstances, get identity: get credentials: %w", refused(403, "SignatureDoesNotMatch", "x-amz-security-token:c2VjcmV0", nil)), cloud.Denied, "the secret key does not belong"},
		{fmt.Errorf("operation error EC2: DescribeInstances, get identity: get credentials: %w", refused(400, "Throttling", "Rate exceeded", nil)), cloud.Throttled, "Rate exceeded"},
	} {
		err := explain(describeInstances, test.err)
		if cloud.KindOf(err) != test.kind || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "c2VjcmV0") {
			t.Errorf("%v: %s: %v", test.err, cloud.KindOf(err), err)
		}
		if strings.Contains(err.Error(), "allow ec2:") {
			t.Errorf("%v names an action of EC2, which was not refused", err)
		}
	}
}

// TestEachTryHasTheSameReason: the IDs of requests are in errors, and not in their reasons.
func TestEachTryHasTheSameReason(t *testing.T) {
	answer := func(id string, err error) error {
		if answered, ok := errors.AsType[*awshttp.ResponseError](err); ok {
			answered.RequestID = id
		}
		return err
	}
	for _, of := range []func(id string) error{
		func(id string) error { return answer(id, refused(403, "UnauthorizedOperation", "not authorized", nil)) },
		func(id string) error { return answer(id, refused(500, "InternalError", "an internal error", nil)) },
		func(id string) error {
			return fmt.Errorf("operation error EC2: DescribeInstances, get identity: get credentials: %w", answer(id, refused(403, "AccessDenied", "Not authorized to perform sts:AssumeRole", nil)))
		},
		func(id string) error { // an answer that is no XML
			return &awshttp.ResponseError{RequestID: id, ResponseError: &smithyhttp.ResponseError{
				Response: &smithyhttp.Response{Response: &http.Response{StatusCode: 200}}, Err: errors.New("deserialization failed"),
			}}
		},
	} {
		first, second := explain(describeInstances, of("req-1")), explain(describeInstances, of("req-2"))
		if cloud.Reason(first) != cloud.Reason(second) || strings.Contains(cloud.Reason(first), "req-1") {
			t.Errorf("the reasons are\n%s\n%s", cloud.Reason(first), cloud.Reason(second))
		}
		if !strings.Contains(first.Error(), "(request req-1)") || !strings.Contains(second.Error(), "(request req-2)") {
			t.Errorf("no request is named:\n%v\n%v", first, second)
		}
	}
}
