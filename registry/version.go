package registry

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/holdfast-run/holdfast/accounts"
)

const maxVersion = 128

// semantic is a version by semver 2.0.0: core, pre-release, build.
var semantic = regexp.MustCompile(`^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)` +
	`(?:-((?:0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*))*))?` +
	`(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?$`)

var digits = regexp.MustCompile(`^[0-9]+$`)

// precedence gives a text that sorts, byte by byte, like the version (semver 2.0.0, 11).
// Versions that differ in their build alone have the same. What is no version is Invalid.
func precedence(version string) (string, error) {
	parts := semantic.FindStringSubmatch(version)
	if parts == nil || len(version) > maxVersion {
		return "", accounts.Invalid("version", "Version must be a semantic version such as 1.2.3 or 1.2.3-beta.1, without a v before it")
	}
	var b strings.Builder
	for _, number := range parts[1:4] {
		b.WriteString(sortable(number))
	}
	if parts[4] == "" {
		b.WriteByte('~') // a release comes after all of its pre-releases
		return b.String(), nil
	}
	b.WriteByte('-')
	for _, identifier := range strings.Split(parts[4], ".") {
		if digits.MatchString(identifier) {
			b.WriteString("0" + sortable(identifier))
		} else {
			b.WriteString("1" + identifier)
		}
		b.WriteByte(' ') // before every character of an identifier, so that the shorter one is first
	}
	return b.String(), nil
}

// sortable puts the number of digits before them: longer numbers are larger.
func sortable(number string) string { return fmt.Sprintf("%03d%s", len(number), number) }
