package registry

import (
	"bytes"
	"io"
	"regexp"
	"strings"

	"github.com/holdfast-run/holdfast/fault"
)

// How large the files beside a provider's packages may be, in bytes.
const (
	maxShasums   = 1 << 20
	maxSignature = 64 << 10
)

// checksums maps the name of a file to its SHA-256 in small hexadecimal digits.
type checksums map[string]string

var sha256Hex = regexp.MustCompile(`^[0-9a-f]{64}$`)

// readChecksums reads a file as sha256sum writes it.
func readChecksums(content []byte) (checksums, error) {
	wrong := func(line int) error {
		return fault.New(fault.Invalid, "shasums_refused", "Line %d of SHA256SUMS is not a SHA-256 in hexadecimal and the name of a file. Write it with: sha256sum *.zip", line)
	}
	sums := checksums{}
	for i, line := range bytes.Split(content, []byte("\n")) {
		text := strings.TrimSuffix(string(line), "\r")
		if text == "" {
			continue
		}
		sum, name, ok := strings.Cut(text, " ")
		name = strings.TrimPrefix(strings.TrimPrefix(name, " "), "*") // * stands before what is binary
		sum = strings.ToLower(sum)
		if !ok || name == "" || !sha256Hex.MatchString(sum) {
			return nil, wrong(i + 1)
		}
		if had, twice := sums[name]; twice && had != sum {
			return nil, fault.New(fault.Invalid, "shasums_refused", "SHA256SUMS says two sums for %q.", name)
		}
		sums[name] = sum
	}
	if len(sums) == 0 {
		return nil, fault.New(fault.Invalid, "shasums_refused", "SHA256SUMS is empty. Write it with: sha256sum *.zip")
	}
	return sums, nil
}

// check refuses a platform that the checksums do not say.
func (sums checksums) check(p Platform) error {
	if sum, listed := sums[p.Filename]; !listed || !strings.EqualFold(sum, p.Shasum) {
		return fault.New(fault.Invalid, "shasum_mismatch", "SHA256SUMS does not say %s for %q, as the platform %s_%s does. Delete the platform and create it again with the sum of its zip, or correct SHA256SUMS.",
			p.Shasum, p.Filename, p.OS, p.Arch)
	}
	return nil
}

// readSmall reads a body of at most limit bytes.
func readSmall(what string, body io.Reader, limit int64) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > limit {
		return nil, fault.New(fault.TooLarge, "artifact_too_large", "The %s is larger than the limit of %d bytes. Nothing was stored.", what, limit)
	}
	return content, nil
}
