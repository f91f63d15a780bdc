package controller

import (
	"fmt"

	"github.com/tulle-net/tulle/pkg/kube"
)

// explain adds to err the hint of package kube, if it has one.
func explain(err error) error {
	if err == nil {
		return nil
	}
	if hint := kube.Hint(err); hint != "" {
		return fmt.Errorf("%s (%w)", hint, err)
	}
	return err
}
