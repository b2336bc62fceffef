package policies

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"path"
	"sort"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclparse"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/policies/evaluator"
)

// How large an uploaded version may be.
const (
	maxUpload = 4 << 20  // bytes as they come
	maxBundle = 16 << 20 // bytes of the files in it
	maxFiles  = 2000
)

// manifestName is the file that lists the policies of an uploaded version.
const manifestName = "policies.hcl"

// manifest is policies.hcl, as Terraform Cloud has it.
type manifest struct {
	Policies []struct {
		Name        string `hcl:"name,label"`
		Query       string `hcl:"query"`
		Level       string `hcl:"enforcement_level,optional"`
		Description string `hcl:"description,optional"`
	} `hcl:"policy,block"`
}

// readBundle reads an uploaded tar.gz. Files other than modules and the manifest are left out.
func readBundle(body io.Reader, set Set) (evaluator.Bundle, error) {
	files, err := readArchive(body, set.Kind)
	if err != nil {
		return evaluator.Bundle{}, err
	}
	b := evaluator.Bundle{Rego: set.Rego}
	var listed []byte
	for name, content := range files {
		if name == manifestName {
			listed = content
			continue
		}
		b.Modules = append(b.Modules, evaluator.Module{Path: name, Content: string(content)})
	}
	sort.Slice(b.Modules, func(i, j int) bool { return b.Modules[i].Path < b.Modules[j].Path })
	if set.Kind != OPA {
		return b, nil
	}
	if listed == nil {
		return b, bundleRefused("There is no %s at the top of the archive. It lists the policies: policy \"NAME\" { query = \"data.PACKAGE.RULE\", enforcement_level = \"mandatory\" }.", manifestName)
	}
	b.Policies, err = readManifest(listed)
	return b, err
}

func bundleRefused(text string, args ...any) error {
	return fault.New(fault.Invalid, "policy_bundle_refused", text, args...)
}

func readManifest(content []byte) ([]evaluator.Policy, error) {
	file, problems := hclparse.NewParser().ParseHCL(content, manifestName)
	var m manifest
	if !problems.HasErrors() {
		problems = gohcl.DecodeBody(file.Body, &hcl.EvalContext{}, &m)
	}
	if problems.HasErrors() {
		return nil, bundleRefused("%s cannot be read: %s", manifestName, problems.Error())
	}
	var list []evaluator.Policy
	seen := map[string]bool{}
	for _, p := range m.Policies {
		level := evaluator.Level(p.Level)
		if p.Level == "" {
			level = evaluator.Advisory
		}
		switch {
		case seen[p.Name]:
			return nil, bundleRefused("%s has two policies %q.", manifestName, p.Name)
		case level != evaluator.Advisory && level != evaluator.Mandatory:
			return nil, bundleRefused("The enforcement level of policy %q is %q. It must be advisory or mandatory.", p.Name, p.Level)
		}
		seen[p.Name] = true
		list = append(list, evaluator.Policy{Name: p.Name, Description: p.Description, Query: p.Query, Level: level})
	}
	if len(list) == 0 {
		return nil, bundleRefused("%s lists no policy.", manifestName)
	}
	return list, nil
}

// readArchive gives the files that matter by their cleaned names. Links are left out: nothing
// is ever written to a disk.
func readArchive(body io.Reader, kind Kind) (map[string][]byte, error) {
	packed, err := io.ReadAll(io.LimitReader(body, maxUpload+1))
	if err != nil {
		return nil, err
	}
	if len(packed) > maxUpload {
		return nil, fault.New(fault.TooLarge, "policy_too_large", "A version of a policy set may have at most %d bytes.", maxUpload)
	}
	zipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, bundleRefused("The upload is no tar.gz: %s", err)
	}
	files, left := map[string][]byte{}, int64(maxBundle)
	for reader := tar.NewReader(zipped); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, bundleRefused("The upload is no tar.gz: %s", err)
		}
		name := strings.TrimPrefix(path.Clean("/"+header.Name), "/")
		if header.Typeflag != tar.TypeReg || !wanted(kind, name) {
			continue
		}
		if header.Size > left || len(files) == maxFiles {
			return nil, bundleRefused("The archive is too large: at most %d files with %d bytes together.", maxFiles, maxBundle)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			return nil, bundleRefused("The upload is no tar.gz: %s", err)
		}
		left -= int64(len(content))
		files[name] = content
	}
}

func wanted(kind Kind, name string) bool {
	if kind == Sentinel {
		return strings.HasSuffix(name, ".sentinel") || strings.HasSuffix(name, ".hcl")
	}
	return name == manifestName || strings.HasSuffix(name, ".rego")
}
