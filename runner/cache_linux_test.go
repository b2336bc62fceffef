package runner

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// downloads counts how often the mirror's package was asked for.
func (m *networkMirror) downloads() (n int) {
	for _, path := range m.paths() {
		if path == "/providers/"+faultAddress+"/fault.zip" {
			n++
		}
	}
	return n
}

// With the real tofu, in the enclosure: what a plan has installed is there for its apply and for
// later plans with the same lock file, and for nobody else; and nobody can write to it. Not
// parallel: it sets the environment.
func TestAProviderIsInstalledOnce(t *testing.T) {
	m := newNetworkMirror(t)
	p := newProxy(t, m)
	t.Setenv("HTTPS_PROXY", p.url)
	t.Setenv("NO_PROXY", "")
	config := faultConfig + provisioned(`for package in $(find . -path '*.terraform/providers*' -type l); do
		cd -P "$package" || continue
		for file in *; do
			chmod u+w "$file" 2>/dev/null && echo "OP""EN: chmod"
			{ echo tampered >> "$file"; } 2>/dev/null && echo "OP""EN: $file"
			touch new 2>/dev/null && echo "OP""EN: new"
			echo "tried $file"
		done
	done`)
	dir := t.TempDir()
	run := func(organization string, files map[string]string, speculative, apply bool) *fakeServer {
		t.Helper()
		f := newFakeServer(t, wire.Manifest{}, files)
		f.owner, f.speculative = organization, speculative
		cfg := enclosed(t, f)
		cfg.Dir, cfg.NetworkMirror = dir, "https://"+mirrorHost+"/providers/"
		cfg.trust(t, m.authority)
		end := start(t, cfg)
		require.Equal(t, wire.OutcomeFinished, f.await().Outcome, f.logText())
		if apply {
			f.next("apply")
			require.Equal(t, wire.OutcomeFinished, f.await().Outcome, f.logText())
		}
		end()
		return f
	}
	first := map[string]string{"main.tf": config}
	f := run("org-1111111111111111", first, true, false)
	assert.Equal(t, 1, m.downloads())
	locked := map[string]string{"main.tf": config, lockFileName: string(f.artifacts[wire.KindLockFile])}
	run("org-1111111111111111", locked, true, false)
	assert.Equal(t, 1, m.downloads(), "a speculative run uses what another has installed")

	f = run("org-1111111111111111", locked, false, true)
	assert.Equal(t, 2, m.downloads(), "one that applies does not, but its apply uses what its plan has installed")
	assert.Contains(t, f.logText(), "tried terraform-provider-fault")
	assert.NotContains(t, f.logText(), "OPEN")
	run("org-1111111111111111", locked, false, false)
	assert.Equal(t, 2, m.downloads())
	run("org-2222222222222222", locked, false, false)
	assert.Equal(t, 3, m.downloads(), "another organization has its own")
}
