package gce

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// The actions that requests are counted and reported by, in the words of the API.
const (
	listInstances   = "instances.list"
	getInstance     = "instances.get"
	updateInterface = "instances.updateNetworkInterface"
	waitOperation   = "zoneOperations.wait"
	listAll         = "instances.aggregatedList"
	listRoutes      = "routes.list"
	getRoute        = "routes.get"
	insertRoute     = "routes.insert"
	deleteRoute     = "routes.delete"
	listOperations  = "globalOperations.list"
)

// permissions are what the API requires for each action.
var permissions = map[string]string{
	listInstances:   "compute.instances.list",
	getInstance:     "compute.instances.get",
	updateInterface: "compute.instances.updateNetworkInterface and compute.subnetworks.use",
	waitOperation:   "compute.zoneOperations.get",
	listAll:         "compute.instances.list",
	listRoutes:      "compute.routes.list",
	getRoute:        "compute.routes.get",
	insertRoute:     "compute.routes.create, compute.networks.updatePolicy and compute.instances.use",
	deleteRoute:     "compute.routes.delete and compute.networks.updatePolicy",
	listOperations:  "compute.globalOperations.list",
}

// refusal is the body of an answer that is not OK.
type refusal struct {
	Error struct {
		Message string `json:"message"`
		Errors  []struct {
			Reason string `json:"reason"`
		} `json:"errors"`
	} `json:"error"`
}

// overQuota are the reasons of a 403 that is about a quota, not about a permission.
var overQuota = []string{"rateLimitExceeded", "userRateLimitExceeded", "quotaExceeded", "RATE_LIMIT_EXCEEDED"}

// refused returns the error for an answer that is not OK.
func refused(action string, r *http.Response, body []byte) *cloud.Error {
	var said refusal
	_ = json.Unmarshal(body, &said) // a proxy answers something else
	e := &cloud.Error{Kind: cloud.Refused, Action: action, Text: said.Error.Message, After: retryAfter(r)}
	if e.Text == "" {
		e.Text = strings.TrimSpace(string(body))
	}
	quota, full := r.StatusCode == http.StatusTooManyRequests, false
	for _, one := range said.Error.Errors {
		quota = quota || slices.Contains(overQuota, one.Reason)
		full = full || one.Reason == "quotaExceeded" && action == insertRoute
	}
	fix := ""
	switch code := r.StatusCode; {
	case full:
		e.Kind, fix = cloud.Full, "; raise the quota STATIC_ROUTES_PER_NETWORK, or remove nodes"
	case quota:
		e.Kind, fix = cloud.Throttled, "; waiting, or raise the project's quota of Compute Engine API requests"
	case code == http.StatusUnauthorized:
		e.Kind, fix = cloud.Denied, "; the credentials are invalid: check the service account's key and the clock"
	case code == http.StatusForbidden:
		e.Kind, fix = cloud.Denied, "; grant the service account "+permissions[action]+", and the instance that this runs on the scope "+Scope
	case code == http.StatusNotFound:
		e.Kind = cloud.Missing
	case code == http.StatusPreconditionFailed || code == http.StatusConflict:
		e.Kind, fix = cloud.Changed, "; retrying with its new state"
	case code >= 500 || code == http.StatusRequestTimeout:
		e.Kind, fix = cloud.Unavailable, "; retrying"
	default:
		e.Kind = kindOf(e.Text)
	}
	e.Text = fmt.Sprintf("the Compute Engine API answers %d (%s): %.300q%s", r.StatusCode, http.StatusText(r.StatusCode), e.Text, fix)
	return e
}

// inUse are the codes of addresses that something else uses.
var inUse = []string{"IP_IN_USE_BY_ANOTHER_RESOURCE", "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE", "already being used by another"}

// kindOf returns the kind of an error from its text, where the status does not tell it.
func kindOf(text string) cloud.Kind {
	for _, code := range inUse {
		if strings.Contains(text, code) {
			return cloud.Taken
		}
	}
	return cloud.Refused
}

// failure returns why an operation of an action failed, or nil.
func (o *operation) failure(action string) error {
	if len(o.Error.Errors) == 0 {
		return nil
	}
	first := o.Error.Errors[0]
	text, fix := first.Code+": "+first.Message, ""
	kind := kindOf(text)
	switch {
	case strings.Contains(first.Code, "QUOTA_EXCEEDED") && action == insertRoute:
		kind, fix = cloud.Full, "; raise the quota STATIC_ROUTES_PER_NETWORK, or remove nodes"
	case strings.Contains(first.Code, "RATE_EXCEEDED"), strings.Contains(first.Code, "QUOTA_EXCEEDED"):
		kind = cloud.Throttled
	case action == updateInterface:
	case first.Code == "RESOURCE_NOT_FOUND":
		kind = cloud.Missing
	case first.Code == "RESOURCE_ALREADY_EXISTS", first.Code == "RESOURCE_NOT_READY":
		kind = cloud.Changed
	case strings.HasPrefix(first.Code, "INTERNAL_ERROR"):
		kind = cloud.Unavailable
	}
	return &cloud.Error{Kind: kind, Action: action, Text: fmt.Sprintf("operation %.80q failed: %.300q%s", o.Name, text, fix)}
}

// mostAfter limits how long the API may ask to wait.
const mostAfter = 5 * time.Minute

// retryAfter returns how long an answer asks to wait.
func retryAfter(r *http.Response) time.Duration {
	seconds, err := strconv.ParseUint(r.Header.Get("Retry-After"), 10, 16)
	if err != nil {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, mostAfter)
}
