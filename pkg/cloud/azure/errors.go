package azure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/tulle-net/tulle/pkg/cloud"
)

const (
	// longest limits what an error repeats of an answer.
	longest = 400
	// longestPause limits how long Azure can make a client wait.
	longestPause = 5 * time.Minute
)

// kinds are the kinds of errors that Azure names. Others are told by their status.
var kinds = map[string]cloud.Kind{
	"TooManyRequests": cloud.Throttled, "OperationNotAllowed": cloud.Full, "SubscriptionRequestsThrottled": cloud.Throttled,
	"AnotherOperationInProgress": cloud.Changed, "PreconditionFailed": cloud.Changed, "RetryableError": cloud.Changed, "ReferencedResourceNotProvisioned": cloud.Changed,
	"RetryableErrorDueToAnotherOperation": cloud.Changed, // with status 429, though no limit is reached
	"ResourceGroupBeingDeleted":           cloud.Changed, "Canceled": cloud.Changed, "CanceledAndSupersededDueToAnotherOperation": cloud.Changed, "OperationPreempted": cloud.Changed,
	"AuthorizationFailed": cloud.Denied, "LinkedAuthorizationFailed": cloud.Denied, "RequestDisallowedByPolicy": cloud.Denied, "ScopeLocked": cloud.Denied,
	"ReadOnlyDisabledSubscription": cloud.Denied, "InvalidAuthenticationToken": cloud.Denied, "ExpiredAuthenticationToken": cloud.Denied, "AuthenticationFailed": cloud.Denied,
	"SubscriptionNotFound": cloud.Denied, "InvalidSubscriptionId": cloud.Denied, "InvalidAuthenticationTokenTenant": cloud.Denied,
	"InternalServerError": cloud.Unavailable, "ServiceUnavailable": cloud.Unavailable, "ServerTimeout": cloud.Unavailable, "InternalExecutionError": cloud.Unavailable,
}

// absences are the codes with which Azure says that a resource does not exist. Another 404,
// like one of a proxy, says nothing about the resource.
var absences = map[string]bool{"ResourceNotFound": true, "ResourceGroupNotFound": true, "NotFound": true, "ParentResourceNotFound": true}

// fixes are what to do about errors of Azure.
var fixes = map[string]string{
	"RequestDisallowedByPolicy":    "a policy of the subscription forbids it; exempt the resource, or change the policy",
	"ScopeLocked":                  "remove the lock of the resource or its group",
	"ReadOnlyDisabledSubscription": "enable the subscription",
	"SubscriptionNotFound":         "correct subscriptionId in the cloud config, or give the identity a role there",
	"ResourceGroupNotFound":        "correct the resource group in the cloud config",
}

// failure is an error of Azure's messages.
type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Details []struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"details"`
}

// explain returns err as a *cloud.Error with the fix.
func explain(action string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*cloud.Error](err); ok {
		return e
	}
	if answered, ok := errors.AsType[*azcore.ResponseError](err); ok {
		return answeredError(action, answered)
	}
	// Neither of these repeats a secret. Both have several lines.
	if failed, ok := errors.AsType[*azidentity.AuthenticationFailedError](err); ok {
		return unidentified(action, failed.RawResponse, err)
	}
	if strings.Contains(err.Error(), "Credential") && !errors.Is(err, context.DeadlineExceeded) {
		return unidentified(action, nil, err)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &cloud.Error{Kind: cloud.Unavailable, Action: action, Text: "no answer in time; check the way to the API"}
	}
	return &cloud.Error{Kind: cloud.Unavailable, Action: action, Text: clip(err.Error())}
}

// unidentified explains that there is no token to send.
func unidentified(action string, r *http.Response, err error) error {
	e := &cloud.Error{Kind: cloud.Denied, Action: action}
	if r != nil && (r.StatusCode >= 500 || r.StatusCode == http.StatusTooManyRequests) {
		e.Kind, e.After = cloud.Unavailable, retryAfter(r.Header)
	}
	e.Text = "no token: " + clip(err.Error()) + "; check the identity of the cloud config, or give the machine or the pod one"
	return e
}

// answeredError explains an answer that is an error.
func answeredError(action string, r *azcore.ResponseError) error {
	f := failure{Code: r.ErrorCode}
	e := &cloud.Error{Action: action}
	if r.RawResponse != nil {
		e.After = retryAfter(r.RawResponse.Header)
		if body, err := runtime.Payload(r.RawResponse); err == nil {
			f = failureOf(body, f)
		}
	}
	e.Kind = kindOf(f, r.StatusCode)
	code := clip(f.Code)
	if code == "" {
		code = "status " + strconv.Itoa(r.StatusCode)
	}
	e.Text = code
	if f.Message != "" {
		e.Text += ": " + clip(f.Message)
	}
	for _, d := range f.Details[:min(len(f.Details), 2)] {
		e.Text += "; " + clip(d.Code+": "+d.Message)
	}
	switch {
	case fixes[f.Code] != "":
		e.Text += "; " + fixes[f.Code]
	case e.Kind == cloud.Denied && r.StatusCode == http.StatusUnauthorized:
		e.Text += "; check the identity of the cloud config"
	case e.Kind == cloud.Denied:
		e.Text += fmt.Sprintf("; allow %s in a role of the identity that the program uses", action)
	case e.Kind == cloud.Throttled:
		e.Text += "; the request rate is used up, by this program or by others; slowing down"
	case e.Kind == cloud.Full && action == writeTable:
		e.Text += "; ask Azure for a higher limit of routes per route table"
	}
	return e
}

// failureOf returns the error in a message, or other.
func failureOf(body []byte, other failure) failure {
	var m struct {
		Error failure `json:"error"`
		failure
	}
	if json.Unmarshal(body, &m) != nil {
		return other
	}
	if m.Error.Code != "" {
		return m.Error
	}
	if m.Code != "" {
		return m.failure
	}
	return other
}

// kindOf returns the kind of an error.
func kindOf(f failure, status int) cloud.Kind {
	kind, known := kinds[f.Code]
	switch {
	case kind == cloud.Changed:
		return kind
	case status == http.StatusTooManyRequests:
		return cloud.Throttled
	case status == http.StatusPreconditionFailed:
		return cloud.Changed
	case known:
		return kind
	case status == http.StatusNotFound && absences[f.Code]:
		return cloud.Missing
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return cloud.Denied
	case strings.Contains(f.Code, "Limit") || strings.Contains(f.Code, "Quota") || strings.HasPrefix(f.Code, "TooMany"):
		return cloud.Full
	case status == http.StatusConflict:
		return cloud.Changed
	case status == http.StatusBadRequest || status == http.StatusUnprocessableEntity || status == http.StatusMethodNotAllowed:
		return cloud.Refused
	}
	// Among these is an operation that failed in the end: it may have changed something.
	return cloud.Unavailable
}

// strange returns the error of an answer that cannot be of the API: nothing of it is to
// be believed then.
func strange(action, what, value string) error {
	return &cloud.Error{Kind: cloud.Unavailable, Action: action, Text: fmt.Sprintf("the answer has the %s %.120q; retrying", what, value)}
}

// clip removes from a text what a person cannot read, and limits it to its first lines.
func clip(text string) string {
	text, _, _ = strings.Cut(text, "\n---")
	text = strings.ToValidUTF8(strings.TrimSpace(text), "?")
	text = strings.TrimSuffix(strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }), " "), ".")
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}

// retryAfter returns how long the server asks clients to wait.
func retryAfter(h http.Header) time.Duration {
	d, err := time.ParseDuration(h.Get("Retry-After") + "s")
	if err != nil || d < 0 {
		return 0
	}
	return min(d, longestPause)
}
