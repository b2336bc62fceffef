package state

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/fault"
)

// File is what the server reads out of a state file while its bytes stream by.
type File struct {
	Serial           int64
	Lineage          string
	TerraformVersion string
	// Encrypted: OpenTofu encrypted the file; only serial and lineage can be read.
	Encrypted bool
	// HasSerial and HasLineage tell whether the file names them at all.
	HasSerial, HasLineage bool
	Outputs               []FileOutput
	// Resources lists the resource blocks, and ResourceCount counts them. The list is
	// empty when it would be too large.
	Resources     []Resource
	ResourceCount int
	// OutputsLeftOut: the outputs are too many or too large to be indexed; they are in
	// the file only.
	OutputsLeftOut bool

	serialAt, serialEnd int64 // where the serial stands, in bytes

	seen      []string     // members of the file that were read
	malformed *fault.Error // why the bytes are no state file
}

// inPlain tells whether the file shows what it holds, also beside a ciphertext.
func (f File) inPlain() bool {
	return !f.Encrypted || f.ResourceCount > 0 || len(f.Outputs) > 0 || f.OutputsLeftOut
}

// FileOutput is one root output as it stands in the file.
type FileOutput struct {
	Name      string          `json:"name"`
	Value     json.RawMessage `json:"value"`
	Type      json.RawMessage `json:"type"` // type in cty's JSON form, such as "string" or ["list","string"]
	Sensitive bool            `json:"sensitive"`
}

// Resource is one resource block with the number of its instances.
type Resource struct {
	Module    string `json:"module,omitempty"` // such as module.net["a"]; empty is the root
	Mode      string `json:"mode"`             // managed or data
	Type      string `json:"type"`
	Name      string `json:"name"`
	Provider  string `json:"provider"`
	Instances int    `json:"instances"`
	// Keys are the index keys of the instances as JSON, such as 0 or "a", where there are
	// any and not too many to be kept.
	Keys []string `json:"keys,omitempty"`
}

const (
	outputsLimit   = 8 << 20 // bytes of outputs that are indexed
	outputsMost    = 10_000  // outputs that are indexed: each becomes a row
	resourcesLimit = 4 << 20 // bytes of names of resources that are listed: some 20,000 resources
	resourceCost   = 100     // bytes that a resource takes beside its names
	keysMost       = 10_000  // index keys of one resource that are listed
	keyLimit       = 1024    // bytes of one
	scalarLimit    = 1 << 20 // a name, type or address longer than this is no state file
	lineageLimit   = 255     // bytes; tofu writes a UUID
	depthLimit     = 1000
)

// ReadFile reads a state file to its end in constant memory, apart from outputs
// and the list of resources. Text that is not one JSON object, or that names a
// member it reads twice (in whatever case, because tofu reads both), is Invalid
// "state_malformed". The answer never repeats what is in the file. An error of r is
// returned as it is.
func ReadFile(r io.Reader) (File, error) {
	s := newScanner(r)
	var f File
	err := s.object(func(key string) error { return f.member(s, key) })
	if err == nil {
		err = s.end()
	}
	var syntax *syntaxError
	if errors.As(err, &syntax) {
		return File{}, malformed(syntax.what)
	}
	if err != nil {
		return File{}, err
	}
	return f, nil
}

func malformed(what string) *fault.Error {
	return fault.New(fault.Invalid, "state_malformed", "The uploaded bytes are not a state file: %s. Upload the file as `tofu` wrote it.", what)
}

// members are those that are read; all others only have to be JSON.
var members = []string{"serial", "lineage", "terraform_version", "encrypted_data", "outputs", "resources"}

func (f *File) member(s *scanner, key string) (err error) {
	for _, m := range members {
		if !strings.EqualFold(m, key) {
			continue
		}
		if slices.Contains(f.seen, m) {
			return &syntaxError{"it names its " + m + " twice"}
		}
		f.seen = append(f.seen, m)
		key = m
	}
	switch key {
	case "serial":
		f.HasSerial = true
		if _, err := s.peek(); err != nil {
			return err
		}
		f.serialAt = s.offset()
		f.Serial, err = s.integer()
		f.serialEnd = s.offset()
	case "lineage":
		f.HasLineage = true
		if f.Lineage, err = s.text(); err == nil && !storableLineage(f.Lineage) {
			err = &syntaxError{"its lineage is longer than 255 bytes or has characters that no lineage has"}
		}
	case "terraform_version":
		if f.TerraformVersion, err = s.text(); err == nil && !accounts.Storable(f.TerraformVersion) {
			err = &syntaxError{"its terraform_version has characters that no version has"}
		}
	case "encrypted_data":
		f.Encrypted = true
		err = s.skip(0)
	case "outputs":
		err = f.readOutputs(s)
	case "resources":
		err = f.readResources(s)
	default:
		err = s.skip(0)
	}
	return err
}

// storableLineage tells whether the database can keep the text and compare it.
func storableLineage(lineage string) bool {
	return len(lineage) <= lineageLimit && accounts.Storable(lineage)
}

func (f *File) readOutputs(s *scanner) error {
	if c, err := s.peek(); err != nil || c != '{' {
		return s.skipOr(err)
	}
	left, names := outputsLimit, map[string]bool{}
	return s.object(func(name string) error {
		if f.OutputsLeftOut {
			return s.skip(0)
		}
		if names[name] {
			return &syntaxError{"it names an output twice"}
		}
		names[name] = true
		raw, err := s.raw(left)
		if err != nil && !errors.Is(err, errTooLong) {
			return err
		}
		if err != nil || len(names) > outputsMost {
			f.Outputs, f.OutputsLeftOut = nil, true
			return nil
		}
		left = max(0, left-len(raw)-len(name))
		var o FileOutput
		if err := json.Unmarshal(raw, &o); err != nil {
			return &syntaxError{"an output in it has an unknown form"}
		}
		o.Name = name
		f.Outputs = append(f.Outputs, o)
		return nil
	})
}

func (f *File) readResources(s *scanner) error {
	if c, err := s.peek(); err != nil || c != '[' {
		return s.skipOr(err)
	}
	left := resourcesLimit
	return s.array(func() error {
		if c, err := s.peek(); err != nil || c != '{' {
			return s.skipOr(err)
		}
		r, err := readResource(s)
		if err != nil {
			return err
		}
		f.ResourceCount++
		left -= resourceCost + len(r.Module) + len(r.Mode) + len(r.Type) + len(r.Name) + len(r.Provider)
		for _, key := range r.Keys {
			left -= len(key)
		}
		if left < 0 {
			f.Resources = nil
			return nil
		}
		f.Resources = append(f.Resources, r)
		return nil
	})
}

func readResource(s *scanner) (r Resource, err error) {
	err = s.object(func(key string) (err error) {
		switch key {
		case "module":
			r.Module, err = s.word()
		case "mode":
			r.Mode, err = s.word()
		case "type":
			r.Type, err = s.word()
		case "name":
			r.Name, err = s.text()
		case "provider":
			r.Provider, err = s.word()
		case "instances":
			r.Instances, r.Keys = 0, nil
			if c, err := s.peek(); err != nil || c != '[' {
				return s.skipOr(err)
			}
			err = s.array(func() error {
				r.Instances++
				key, err := readIndexKey(s)
				if key != "" && len(r.Keys) == r.Instances-1 && r.Instances <= keysMost {
					r.Keys = append(r.Keys, key)
				}
				return err
			})
		default:
			err = s.skip(0)
		}
		return err
	})
	if len(r.Keys) != r.Instances {
		r.Keys = nil // some have none, or there are too many
	}
	return r, err
}

// readIndexKey reads an instance for its index key; empty when it has none that is kept.
func readIndexKey(s *scanner) (key string, err error) {
	if c, err := s.peek(); err != nil || c != '{' {
		return "", s.skipOr(err)
	}
	err = s.object(func(name string) error {
		if name != "index_key" {
			return s.skip(0)
		}
		raw, err := s.raw(keyLimit)
		if errors.Is(err, errTooLong) || (err == nil && !accounts.Storable(string(raw))) {
			return nil
		}
		if key = string(raw); key == "null" {
			key = ""
		}
		return err
	})
	return key, err
}
