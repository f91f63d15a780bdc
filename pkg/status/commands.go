package status

import (
	"fmt"
	"time"
)

// Commands is how the commands of the backend extension went, since the daemon's start.
type Commands struct {
	Running string         `json:"running,omitempty"` // what runs at present
	Since   *time.Time     `json:"since,omitempty"`   // when that began
	Waiting int            `json:"waiting"`           // that are to be run, or undone
	Failing int            `json:"failing"`           // those of them that failed
	Runs    []CommandCount `json:"runs"`              // by command
}

// CommandCount counts the runs of one command of the config.
type CommandCount struct {
	Command string  `json:"command"` // the config's key
	Runs    uint64  `json:"runs"`
	Failed  uint64  `json:"failed"`  // the killed ones included
	Killed  uint64  `json:"killed"`  // for taking too long
	Seconds float64 `json:"seconds"` // all runs together
}

// commands writes how commands went.
func (w writer) commands(c *Commands) {
	if c == nil {
		return
	}
	var words []string
	if c.Running != "" && c.Since != nil {
		words = append(words, "running "+c.Running+" "+w.lasting(*c.Since))
	}
	if c.Waiting > 0 {
		words = append(words, fmt.Sprintf("%d waiting, %d of them failed", c.Waiting, c.Failing))
	}
	for _, n := range c.Runs {
		text := fmt.Sprintf("%s %d times", n.Command, n.Runs)
		if n.Failed > 0 {
			text += fmt.Sprintf(" (%d failed, %d killed)", n.Failed, n.Killed)
		}
		words = append(words, text)
	}
	w.line("commands", words...)
}
