package main

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// TestServesOtherProcesses checks that another process finds the account by the
// command's output. At the end, the command prints the calls of that process.
func TestServesOtherProcesses(t *testing.T) {
	in, end := io.Pipe()
	read, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- run(t.Context(), []string{"-instances", "5", "-cluster", "c", "-published", "-latency", "1ms"}, in, out)
		out.Close()
	}()
	lines := bufio.NewScanner(read)
	said := make(map[string]string)
	instances := 0
	for lines.Scan() && lines.Text() != "READY=true" {
		name, value, _ := strings.Cut(lines.Text(), "=")
		said[name] = value
		if strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, value)
		}
		if name == "INSTANCE" {
			instances++
		}
	}
	c, err := config.LoadDefaultConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	key := "tag:kubernetes.io/cluster/c"
	answer, err := ec2.NewFromConfig(c).DescribeRouteTables(t.Context(), &ec2.DescribeRouteTablesInput{Filters: []types.Filter{{Name: &key, Values: []string{"owned"}}}})
	if err != nil || len(answer.RouteTables) != 1 || *answer.RouteTables[0].RouteTableId != said["TABLE"] || instances != 5 {
		t.Errorf("%+v %v, of %d instances and %v", answer, err, instances, said)
	}
	end.Close()
	calls := ""
	for lines.Scan() {
		calls += lines.Text() + "\n"
	}
	if err := <-done; err != nil || calls != "CALLS_DescribeRouteTables=1\n" {
		t.Errorf("%v, %q", err, calls)
	}
}

func TestRefusesArguments(t *testing.T) {
	err := run(context.Background(), []string{"x"}, strings.NewReader(""), io.Discard)
	if err == nil || err.Error() != `unexpected argument "x"; it takes flags only` {
		t.Error(err)
	}
}
