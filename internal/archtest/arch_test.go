package archtest

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	root      = "../.."
	lineLimit = 600
)

// repository reads the repository once for all tests.
var repository = sync.OnceValues(func() ([]Package, error) { return Load(root) })

func load(t *testing.T) []Package {
	t.Helper()
	packages, err := repository()
	require.NoError(t, err)
	require.NotEmpty(t, packages)
	return packages
}

func none(t *testing.T, findings []string) {
	t.Helper()
	if len(findings) > 0 {
		t.Errorf("%d findings:\n%s", len(findings), strings.Join(findings, "\n"))
	}
}

func TestImportOrder(t *testing.T) { none(t, TheOrder.Check(load(t))) }

func TestImportOrderNamesExist(t *testing.T) {
	packages := load(t)
	none(t, TheOrder.CheckNames(packages))
	for _, ban := range TheBans {
		for _, name := range ban.In {
			none(t, TheOrder.checkName(packages, name))
		}
	}
}

func TestBannedNames(t *testing.T) { none(t, CheckBans(TheBans, load(t))) }

func TestBannedNamesExist(t *testing.T) {
	goroot, err := GoRoot(root)
	require.NoError(t, err)
	findings, err := CheckBansExist(goroot, TheBans, load(t))
	require.NoError(t, err)
	none(t, findings)
}

func TestStatements(t *testing.T)                       { none(t, CheckSQL(load(t))) }
func TestObjectsOfRights(t *testing.T)                  { none(t, CheckObjects(load(t))) }
func TestSecretsAreComparedInConstantTime(t *testing.T) { none(t, CheckSecrets(load(t))) }

func TestWireTypes(t *testing.T)       { none(t, CheckWireTags(load(t))) }
func TestSkippedTests(t *testing.T)    { none(t, CheckSkips(load(t))) }
func TestFileLength(t *testing.T)      { none(t, CheckLength(load(t), lineLimit)) }
func TestPackageComments(t *testing.T) { none(t, CheckComments(load(t))) }
func TestNamesOfPackages(t *testing.T) { none(t, CheckPackageNames(load(t))) }

func TestRunnerReachesNeitherDatabaseNorStore(t *testing.T) {
	dependencies, err := Dependencies(root, "./cmd/holdfast-runner")
	require.NoError(t, err)
	require.Contains(t, dependencies, Module+"/cmd/holdfast-runner")
	none(t, CheckRunner(dependencies))
}
