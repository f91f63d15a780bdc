package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/tulle-net/tulle/pkg/answer"
	"github.com/tulle-net/tulle/pkg/awsdeploy"
	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/cloud/aws"
	"github.com/tulle-net/tulle/pkg/flags"
)

// networkSettings are those of the command aws.
type networkSettings struct {
	do        string // plan, apply or destroy
	file      string
	confirm   string // the name of the cluster whose network is deleted
	leftovers bool
	noQuota   bool
}

// What the command aws does.
const (
	networkPlan    = "plan"
	networkApply   = "apply"
	networkDestroy = "destroy"
)

// networkVerbs are the words that follow the command aws.
var networkVerbs = []string{networkPlan, networkApply, networkDestroy}

// networkUses are the flags that the command aws uses, in addition to its own.
var networkUses = []string{"cloud-config", "aws-api-share", "output", "log-level"}

// networkFlags are the flags of the command aws.
func (s *settings) networkFlags() []flags.Flag {
	return []flags.Flag{
		{Name: "f", Group: ofNetwork, Value: "FILE", Only: []string{"aws"},
			About: "spec of the network: an AWSCluster in YAML or JSON; - is stdin",
			Set:   flags.To(&s.network.file, readSpecFile)},
		{Name: "confirm", Group: ofNetwork, Value: "NAME", Only: []string{"aws"},
			About: "destroy without asking; the name of the spec's cluster",
			Set:   flags.To(&s.network.confirm, readConfirmed)},
		{Name: "leftovers", Group: ofNetwork, Default: "false", Only: []string{"aws"},
			About: "destroy also what the cluster's cloud controllers left",
			Set:   flags.To(&s.network.leftovers, flags.Bool)},
		{Name: "skip-quotas", Group: ofNetwork, Default: "false", Only: []string{"aws"},
			About: "apply without a check of the account's quotas",
			Set:   flags.To(&s.network.noQuota, flags.Bool)},
	}
}

func readSpecFile(value string) (string, error) {
	if value == "-" {
		return value, nil
	}
	return flags.File(value)
}

func readConfirmed(value string) (string, error) { return value, nil }

// setNetwork reads the word that follows the command aws.
func (s *settings) setNetwork(word string) error {
	if !slices.Contains(networkVerbs, word) {
		return &flags.Error{Why: "aws needs to know what to do", Fix: "use one of " + strings.Join(networkVerbs, ", ") + ", as in tulle-controller aws plan -f network.yaml"}
	}
	s.command, s.network.do = doNetwork, word
	return nil
}

// checkNetwork refuses flags that have no effect on the command aws.
func (s *settings) checkNetwork(g *flags.Given) error {
	for _, f := range s.table() {
		if g.Has(f.Name) && !slices.Contains(f.Only, "aws") && !slices.Contains(networkUses, f.Name) && g.From(f.Name) == f.Written() {
			return &flags.Error{Flag: f.Written(), Why: "has no effect on the command aws", Fix: "leave it out"}
		}
	}
	n := &s.network
	switch {
	case n.file == "":
		return &flags.Error{Flag: "-f", Why: "missing", Fix: "name the file with the network's spec, as in tulle-controller aws " + n.do + " -f network.yaml"}
	case n.confirm != "" && n.do != networkDestroy:
		return &flags.Error{Flag: g.From("confirm"), Why: "is for aws destroy", Fix: "leave it out"}
	case n.leftovers && n.do != networkDestroy:
		return &flags.Error{Flag: g.From("leftovers"), Why: "is for aws destroy", Fix: "leave it out"}
	case n.noQuota && n.do != networkApply:
		return &flags.Error{Flag: g.From("skip-quotas"), Why: "is for aws apply", Fix: "leave it out"}
	}
	s.cloud.provider = "aws" // for the name of its page
	var err error
	s.aws.config, s.cloud.warnings, err = aws.ReadConfig(s.cloud.file)
	if err != nil {
		return s.badConfig(g, err)
	}
	return nil
}

// networkJob is one run of the command aws.
type networkJob struct {
	settings
	spec   awsnet.Spec
	client *aws.Client
	in     io.Reader
	out    io.Writer
	log    io.Writer // for people, while it runs
}

// runNetwork runs the command aws.
func (s settings) runNetwork(in io.Reader, out, log io.Writer) error {
	j := networkJob{settings: s, in: in, out: out, log: log}
	for _, w := range s.cloud.warnings {
		fmt.Fprintf(log, "warning: --cloud-config: %s\n", w)
	}
	if err := j.readSpec(); err != nil {
		return err
	}
	if err := awsdeploy.Check(j.spec); err != nil {
		return j.ofFile(err)
	}
	// A signal ends the program while it reads the spec, and later only the calls in flight.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	defer context.AfterFunc(ctx, func() {
		stop()
		fmt.Fprintln(log, "interrupted: ending the calls in flight; a second signal ends the program at once")
	})()
	if err := j.connect(ctx); err != nil {
		return err
	}
	switch s.network.do {
	case networkPlan:
		return j.ofFile(j.plan(ctx))
	case networkApply:
		return j.ofFile(j.apply(ctx))
	}
	return j.ofFile(j.destroy(ctx))
}

// largestSpec is how long a spec may be.
const largestSpec = 1 << 20

// readSpec reads the spec of the network.
func (j *networkJob) readSpec() error {
	var text []byte
	var err error
	if j.network.file == "-" {
		text, err = io.ReadAll(io.LimitReader(j.in, largestSpec+1))
	} else {
		text, err = readLimited(j.network.file)
	}
	if err != nil {
		return fmt.Errorf("-f: %w; name the file with the network's spec", err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return fmt.Errorf("-f %s: the file is empty; dist/aws has examples", j.network.file)
	}
	m, err := awsnet.ParseFile(text)
	if err != nil {
		return fmt.Errorf("-f %s: %w", j.network.file, err)
	}
	j.spec = m.Spec
	return nil
}

func readLimited(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, largestSpec+1))
}

// ofFile names the file in an error about the spec.
func (j *networkJob) ofFile(err error) error {
	if _, is := errors.AsType[awsdeploy.SpecError](err); is {
		return fmt.Errorf("-f %s: %w", j.network.file, err)
	}
	return err
}

// connect sets the client of the spec's region.
func (j *networkJob) connect(ctx context.Context) (err error) {
	c := j.aws.config
	if c.Region != "" && c.Region != j.spec.Region {
		return fmt.Errorf("-f %s: spec.region is %s, and --cloud-config has %s; correct one of them", j.network.file, j.spec.Region, c.Region)
	}
	c.Region = j.spec.Region
	j.client, err = aws.New(ctx, aws.Options{Config: c, Networks: true, Share: float64(j.aws.share) / 100, Agent: "tulle-controller/" + version})
	return err
}

// text reports whether the answer is for people.
func (j *networkJob) text() bool { return j.output == answer.Text }

// write writes the answer.
func (j *networkJob) write(a networkAnswer, text func() error) error {
	return answer.Write(j.output, j.out, "network", a, text)
}
