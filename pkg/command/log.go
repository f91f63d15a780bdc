package command

import (
	"flag"
	"strconv"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/options"
)

// setUpLog sends the log to standard error, at the requested verbosity.
func setUpLog(o options.Options) error {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(flags)
	for _, f := range [][2]string{
		{"logtostderr", "true"}, {"v", strconv.Itoa(o.Verbosity)}, {"vmodule", o.VModule}, {"log_backtrace_at", o.BacktraceAt},
	} {
		if err := flags.Set(f[0], f[1]); err != nil {
			return err
		}
	}
	return nil
}
