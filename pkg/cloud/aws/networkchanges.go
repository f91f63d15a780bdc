package aws

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/awsnet/apply"
	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/retry"
)

const (
	// lagLimit is how long a change waits until AWS knows an object that the Client has
	// just created.
	lagLimit = 20 * time.Second
	// mostTokens is the maximum number of deleted objects of one token that a creation
	// skips.
	mostTokens = 5
)

// lagBackoff is the back-off of a change that refers to a new object.
var lagBackoff = retry.Backoff{First: 250 * time.Millisecond, Last: 4 * time.Second}

// NetworkChange is one object of a call that changes a cluster's network, and Made what a call
// created. A change or deletion returns the ID of the object.
type (
	NetworkChange = apply.Change
	Made          = apply.Made
)

// ChangeNetwork makes one call of a step of an owner's plan. all has more than one
// object only if the call adds, describes or removes rules of one security group. A
// deletion succeeds if the object does not exist. If the call refers to an object that
// the Client has just created, and AWS does not know that yet, ChangeNetwork retries
// for lagLimit.
func (c *Client) ChangeNetwork(ctx context.Context, o awsnet.Owner, call awsnet.Call, all ...NetworkChange) ([]Made, error) {
	change, known := networkCalls[call.Action]
	switch {
	case !known:
		return nil, badCall(call, "this call changes no network")
	case len(all) == 0:
		return nil, badCall(call, "the change has no object")
	case len(all) > 1 && !manyAtOnce[call.Action]:
		return nil, badCall(call, fmt.Sprintf("one call cannot change %d objects", len(all)))
	}
	var named []string
	for _, x := range all {
		if x.Object == nil {
			return nil, badCall(call, "the change of "+x.Step.Key.String()+" has no object")
		}
		for _, r := range awsnet.Named(x.Object) {
			if r != (awsnet.Ref{}) && !isObject(r.ID) && !deletes[call.Action] {
				return nil, badCall(call, fmt.Sprintf("%s of %s has no valid ID: %s", r, x.Step.Key, quoted(r.ID)))
			}
			named = append(named, r.ID)
		}
		if x.ID != "" && !isObject(x.ID) {
			return nil, badCall(call, quoted(x.ID)+" is not an ID of AWS")
		}
		named = append(named, x.ID)
	}
	c.networks.changed(o)
	defer c.networks.changed(o)
	made, err := c.afterLag(ctx, named, func() ([]Made, error) { return change(c, ctx, call, all) })
	c.networks.ended(o, call, all[0], err)
	if deletes[call.Action] {
		err = c.deletion(ctx, call, all[0], err)
	}
	if err != nil {
		return nil, err
	}
	if made == nil {
		for _, x := range all {
			made = append(made, Made{ID: x.ID})
		}
	}
	for i, x := range all {
		switch {
		case deletes[call.Action]:
			c.networks.deleted(x.ID)
		case x.ID == "" && x.Step.Key.Kind.Tagged() && x.Step.Verb == awsnet.Create:
			c.networks.created(made[i].ID, x.Step.Tags)
		}
	}
	return made, nil
}

func badCall(call awsnet.Call, text string) error {
	return &cloud.Error{Kind: cloud.Refused, Action: call.Action, Text: text}
}

// isObject reports whether a request may contain an ID, which must not have wildcards
// or separators. The ID of a route is its table's ID and its destination.
func isObject(id string) bool {
	id, _, route := strings.Cut(id, "/")
	if route && isID("rtb", id) {
		return true
	}
	if strings.HasPrefix(id, "vpc-cidr-assoc-") {
		id = strings.TrimPrefix(id, "vpc-cidr-")
	}
	return resourceID.MatchString(id) || strings.HasPrefix(id, "arn:")
}

// afterLag retries a change while AWS does not know one of the objects that it refers
// to, if the Client has just created that object.
func (c *Client) afterLag(ctx context.Context, named []string, change func() ([]Made, error)) ([]Made, error) {
	end := time.Now().Add(lagLimit)
	for failures := 1; ; failures++ {
		made, err := change()
		if err == nil || cloud.KindOf(err) != cloud.Missing || !c.networks.isNew(named) {
			return made, err
		}
		if time.Now().After(end) || retry.Sleep(ctx, lagBackoff.After(failures)) != nil {
			if e, ok := errors.AsType[*cloud.Error](err); ok {
				err = &cloud.Error{Kind: cloud.Pending, Action: e.Action, Text: e.Text + "; AWS does not know everything yet that was just created; trying again later", Request: e.Request}
			}
			return nil, err
		}
	}
}

// withToken creates an object with a ClientToken. AWS remembers a token for longer than
// its object exists, and then returns the deleted object or refuses the token.
// withToken then uses another token, derived from the first one and the deleted object.
// send returns the ID of the object, and whether it is deleted.
func (c *Client) withToken(token string, send func(token *string) (id string, dead bool, err error)) (string, error) {
	first := token
	for range mostTokens {
		// A token that had an answer before is used again only after its object was
		// deleted.
		for last := c.networks.answered(token); last != ""; last = c.networks.answered(token) {
			token = nextToken(token, last)
		}
		id, dead, err := send(optional(token))
		switch {
		case err != nil && isCode(err, "IdempotentParameterMismatch"):
			token = nextToken(token, "")
		case err != nil:
			return "", err
		case dead:
			token = nextToken(token, id)
		default:
			c.networks.answer(token, id)
			return id, nil
		}
	}
	return "", &cloud.Error{Kind: cloud.Changed, Action: "Create", Text: "AWS answers with objects that are deleted for the client token " + quoted(first) + "; trying again later"}
}

// tokenOf returns the ClientToken of a creation. It depends on what the object names: AWS remembers
// tokens for longer than a network may live, and a new network is in another VPC.
func tokenOf(x NetworkChange) string {
	token := x.Step.Token
	for _, r := range awsnet.Named(x.Object) {
		token = nextToken(token, r.ID)
	}
	return token
}

// nextToken returns the token to use after one whose object is deleted.
func nextToken(token, dead string) string {
	if token == "" {
		return ""
	}
	h := sha256.Sum256([]byte(token + "\x00" + dead))
	return hex.EncodeToString(h[:16])
}

// isCode reports whether an error has this code of AWS.
func isCode(err error, code string) bool {
	e, ok := errors.AsType[*cloud.Error](err)
	return ok && strings.HasPrefix(e.Text, code+":")
}

// deletion returns the result of a deletion, which succeeds if the object does not
// exist. If the object is in use, the error names the interface that uses it.
func (c *Client) deletion(ctx context.Context, call awsnet.Call, x NetworkChange, err error) error {
	if err == nil || cloud.KindOf(err) == cloud.Missing {
		return nil
	}
	if call.Action == detachGateway && isCode(err, "Gateway.NotAttached") {
		return nil
	}
	e, ok := errors.AsType[*cloud.Error](err)
	if !ok || e.Kind != cloud.Taken {
		return err
	}
	var by types.Filter
	switch o := x.Object.(type) {
	case awsnet.Subnet:
		by = filter("subnet-id", x.ID)
	case awsnet.SecurityGroup:
		by = filter("group-id", x.ID)
	case awsnet.VPC:
		by = filter("vpc-id", x.ID)
	case awsnet.InternetGateway:
		by = filter("vpc-id", o.VPC.ID)
	default:
		return err
	}
	out, failed := query(ctx, c, describeInterfaces, func(ctx context.Context) (*ec2.DescribeNetworkInterfacesOutput, error) {
		return c.ec2.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{Filters: []types.Filter{by}, MaxResults: aws.Int32(largestPage)})
	})
	if failed != nil {
		return err
	}
	_, public := x.Object.(awsnet.InternetGateway)
	for _, n := range out.NetworkInterfaces {
		h, wrong := holderOf(n)
		if wrong != nil || public && !h.Public {
			continue
		}
		text := "; it is held by the network interface " + h.ID
		switch {
		case h.Instance != "":
			text += " of instance " + h.Instance
		case h.Description != "":
			text += " (" + h.Description + ")"
		}
		return &cloud.Error{Kind: cloud.Taken, Action: e.Action, Text: e.Text + text, After: e.After, Request: e.Request}
	}
	return err
}
