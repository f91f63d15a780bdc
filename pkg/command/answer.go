package command

import (
	"bytes"
	"encoding/json"
	"io"

	"sigs.k8s.io/yaml"

	"github.com/tulle-net/tulle/pkg/options"
)

// schemaVersion is the version of what commands write for programs. Within a version,
// fields and codes may be added, and none changes its meaning or is removed.
const schemaVersion = "v1"

// answer writes what in a format: as text for people, and for programs as an object
// that begins with its schema. what is a struct.
func answer(f options.Format, out io.Writer, kind string, what any, text func() error) error {
	if f != options.JSON && f != options.YAML {
		return text()
	}
	fields, err := json.Marshal(what)
	if err != nil {
		return err
	}
	first, err := json.Marshal(map[string]string{"schema": "tulle." + kind + "/" + schemaVersion})
	if err != nil {
		return err
	}
	whole := append(first[:len(first)-1:len(first)-1], ',')
	if whole = append(whole, fields[1:]...); string(fields) == "{}" {
		whole = first
	}
	if f == options.YAML {
		whole, err = yaml.JSONToYAML(whole)
	} else {
		var indented bytes.Buffer
		err = json.Indent(&indented, whole, "", "  ")
		indented.WriteByte('\n')
		whole = indented.Bytes()
	}
	if err != nil {
		return err
	}
	_, err = out.Write(whole)
	return err
}
