package gce

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tulle-net/tulle/pkg/cloud"
)

const (
	// pageSize is how many instances a page has at most. It is the API's limit.
	pageSize = 500
	// mostNamed is how many instances of a zone are requested by name. For more, the
	// whole zone is listed.
	mostNamed = 50
	// mostPages limits a list that does not end.
	mostPages = 1000
	// mostZones is how many zones are read at once.
	mostZones = 8
	// fewZones is how many zones are read one by one. A region has three or four.
	fewZones = 4
)

// Instances returns the present state of each instance, by its provider ID. With an error,
// it could not read the instances that are missing in the map.
func (c *Client) Instances(ctx context.Context, ids []string) (map[string]cloud.Instance, error) {
	if c.batch != nil {
		return c.batch.Instances(ctx, ids)
	}
	return c.instances(ctx, ids)
}

// instances reads instances: zone by zone if they are in a few zones, and all zones at
// once if they are in more.
func (c *Client) instances(ctx context.Context, ids []string) (map[string]cloud.Instance, error) {
	found := make(map[string]cloud.Instance, len(ids))
	zones := make(map[place]map[string]string) // the provider ID of each name
	for _, id := range ids {
		n, err := parse(id, c.options.Project)
		if err != nil {
			found[id] = cloud.Instance{ProviderID: id, Problem: err.Error()}
			continue
		}
		if zones[n.place()] == nil {
			zones[n.place()] = make(map[string]string)
		}
		zones[n.place()][n.instance] = id
	}
	var failed error
	if len(zones) > fewZones {
		failed = c.readAll(ctx, zones, found)
	}
	var (
		mu       sync.Mutex
		failures []error
		running  sync.WaitGroup
		free     = make(chan struct{}, mostZones)
	)
	for at, names := range zones {
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			all, err := c.read(ctx, at, slices.Sorted(maps.Keys(names)))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failures = append(failures, err)
			}
			for name, v := range all {
				found[names[name]] = v
			}
		})
	}
	running.Wait()
	return found, errors.Join(append(failures, failed)...)
}

// read returns the instances of those names in a zone.
func (c *Client) read(ctx context.Context, at place, names []string) (map[string]cloud.Instance, error) {
	found := make(map[string]cloud.Instance, len(names))
	missing := func(name string) cloud.Instance { return c.absent(at, name) }
	if len(names) == 1 {
		var i instance
		err := c.do(ctx, request{action: getInstance, method: http.MethodGet, at: at, path: "instances/" + names[0], query: url.Values{"fields": {fieldsOfInstance}}}, &i)
		switch kind := cloud.KindOf(err); {
		case err == nil && i.Name == names[0]:
			found[names[0]] = c.machine(at, &i)
			return found, nil
		case err == nil: // the list shows whether there is such an instance
		case kind == cloud.Missing: // as an unknown zone is, or another API
		case kind == cloud.Refused: // an unknown zone, for example
			found[names[0]] = unread(err)
			return found, nil
		default:
			return nil, err
		}
	}
	query := url.Values{"fields": {"kind,nextPageToken,warning(code,message),items(" + fieldsOfInstance + ")"}, "maxResults": {strconv.Itoa(pageSize)}}
	if len(names) <= mostNamed {
		query.Set("filter", `(name = "`+strings.Join(names, `") OR (name = "`)+`")`)
	}
	for range mostPages {
		var page instances
		err := c.do(ctx, request{action: listInstances, method: http.MethodGet, at: at, path: "instances", query: query}, &page)
		if err == nil {
			err = page.check(listInstances, "compute#instanceList")
		}
		switch kind := cloud.KindOf(err); {
		case err == nil:
		case kind == cloud.Missing: // there may be no such zone; or another API answers
			missing = func(name string) cloud.Instance {
				i := c.absent(at, name)
				i.State = ""
				return i
			}
		case kind == cloud.Refused: // which is one more answer for an unknown zone
			missing = func(string) cloud.Instance { return unread(err) }
		default:
			return found, err
		}
		for n := range page.Items {
			if _, wanted := slices.BinarySearch(names, page.Items[n].Name); wanted {
				found[page.Items[n].Name] = c.machine(at, &page.Items[n])
			}
		}
		if err == nil && !page.Warning.isComplete() {
			return found, incomplete(listInstances, "the zone "+at.zone, page.Warning)
		}
		if page.Next == "" {
			for _, name := range names {
				if _, is := found[name]; !is {
					found[name] = missing(name)
				}
			}
			return found, nil
		}
		query.Set("pageToken", page.Next)
	}
	return found, &cloud.Error{Kind: cloud.Unavailable, Action: listInstances, Text: fmt.Sprintf("the list of the zone %s does not end after %d pages", at.zone, mostPages)}
}

// incomplete returns the error of a list that may lack instances.
func incomplete(action, of string, w warning) error {
	return &cloud.Error{Kind: cloud.Unavailable, Action: action, Text: fmt.Sprintf("the list of %s is incomplete (%.60s: %.200q); reading it again later", of, w.Code, w.Message)}
}

// unread returns what is known of an instance that the API refuses to read.
func unread(err error) cloud.Instance {
	return cloud.Instance{Problem: err.Error() + "; if the zone is wrong, re-create the Node with the provider ID of its instance"}
}
