// Command awsfake serves the AWS account of package awstest to other processes, such as
// another cloud controller manager. It prints the environment that leads an SDK to the
// account, and the main route table and the subnets, as lines NAME=VALUE. It ends with
// its standard input, or on an interrupt, and then prints how often each action was
// called.
//
//	awsfake -instances 50 -cluster c -latency 100ms -published
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "awsfake:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("awsfake", flag.ContinueOnError)
	address := flags.String("listen", "127.0.0.1:0", "address to listen on")
	instances := flags.Int("instances", 0, "instances to launch in the default VPC, in turn in its subnets")
	cluster := flags.String("cluster", "", "name of the cluster in the tags of instances, subnets and the main route table")
	latency := flags.Duration("latency", 0, "time that each call takes")
	published := flags.Bool("published", false, "throttle as AWS publishes it")
	routes := flags.Int("routes", 500, "quota of routes in a table")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; it takes flags only", flags.Arg(0))
	}
	s, err := awstest.Start(*address)
	if err != nil {
		return err
	}
	defer s.Close()
	s.Set(func(to *awstest.Settings) {
		to.RoutesPerTable = *routes
		to.Latency = map[string]time.Duration{"": *latency}
		if *published {
			to.Buckets = awstest.Published()
		}
	})
	n := s.Default()
	var tags map[string]string
	if *cluster != "" {
		tags = map[string]string{"kubernetes.io/cluster/" + *cluster: "owned"}
		for _, id := range append([]string{n.Main}, n.Subnets...) {
			s.Tag(id, tags)
		}
	}
	for i := range *instances {
		s.Launch(awstest.Launch{Subnet: n.Subnets[i%len(n.Subnets)], Tags: tags})
	}
	for _, line := range s.Env() {
		fmt.Fprintln(out, line)
	}
	fmt.Fprintf(out, "VPC=%s\nTABLE=%s\nSUBNETS=%s\n", n.VPC, n.Main, strings.Join(n.Subnets, ","))
	for _, i := range s.Instances() {
		fmt.Fprintf(out, "INSTANCE=%s/%s %s\n", i.Zone, i.ID, i.Name)
	}
	fmt.Fprintln(out, "READY=true")

	ended := make(chan struct{})
	go func() {
		io.Copy(io.Discard, in)
		close(ended)
	}()
	select {
	case <-ctx.Done():
	case <-ended:
	}
	counts := s.Counts()
	for _, action := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(out, "CALLS_%s=%d\n", action, counts[action])
	}
	return nil
}
