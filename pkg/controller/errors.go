package controller

import (
	"fmt"

	"github.com/tulle-net/tulle/pkg/kube"
)

// explain returns err with a hint, if there is one.
func explain(err error) error {
	if err == nil {
		return nil
	}
	if hint := kube.Hint(err); hint != "" {
		return fmt.Errorf("%s (%w)", hint, err)
	}
	return err
}
