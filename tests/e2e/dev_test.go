package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// dev runs `holdfast dev` with these arguments, as a user's shell does.
func dev(args ...string) result {
	cmd := exec.Command(filepath.Join(binDir, "holdfast"), append([]string{"dev"}, args...)...)
	cmd.Env = plainEnviron()
	return finish(cmd)
}

func TestDevGivesTheCommandItsEnvironmentAndReturnsItsExitCode(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	r := dev("--data", dir, "--", "sh", "-c", `
		for name in TFE_ADDRESS TFE_HOSTNAME TFE_TOKEN TF_CLOUD_HOSTNAME TF_CLOUD_ORGANIZATION TF_CLI_CONFIG_FILE SSL_CERT_FILE \
		  HOLDFAST_DATABASE_URL HOLDFAST_DATA HOLDFAST_ADMIN_TOTP_FILE HOLDFAST_PASSWORD_FILE HOLDFAST_METRICS_ADDRESS HOLDFAST_S3_ENDPOINT HOLDFAST_S3_BUCKET HOLDFAST_S3_REGION HOLDFAST_S3_ACCESS_KEY_ID HOLDFAST_S3_SECRET_ACCESS_KEY; do
		  eval "value=\$$name"
		  echo "$name=$value"
		  [ "$(env -i sh -c '. "$1/env"; eval "echo \$$2"' sh "$HOLDFAST_DATA" "$name")" = "$value" ] || echo "$name differs in DIR/env"
		done
		echo "tofu=$(command -v tofu)"
		exit 7`)
	require.Equal(t, 7, r.code, r.said)
	assert.NotContains(t, r.stdout, "differs")
	seen := map[string]string{}
	for line := range strings.Lines(r.stdout) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		assert.NotEmpty(t, value, name)
		seen[name] = value
	}
	assert.Regexp(t, `^localhost:\d+$`, seen["TFE_HOSTNAME"])
	assert.Equal(t, "https://"+seen["TFE_HOSTNAME"], seen["TFE_ADDRESS"])
	assert.Equal(t, seen["TFE_HOSTNAME"], seen["TF_CLOUD_HOSTNAME"])
	assert.Equal(t, "demo", seen["TF_CLOUD_ORGANIZATION"])
	assert.Equal(t, filepath.Join(binDir, "tofu"), seen["tofu"])

	// The second start finds the first one's data, and the command's death is told as a shell does.
	again := dev("--data", dir, "--", "sh", "-c", `echo "$TFE_TOKEN"; kill -TERM $$`)
	assert.Equal(t, 128+15, again.code, again.said)
	assert.Equal(t, seen["TFE_TOKEN"]+"\n", again.stdout)

	missing := dev("--data", dir, "--", "no-such-program")
	assert.Equal(t, 127, missing.code, missing.said)
	assert.Contains(t, missing.said, "no-such-program")
}

func TestDevRefusesANetworkMirrorThatTofuCannotUse(t *testing.T) {
	t.Parallel()
	r := dev("--network-mirror", "http://mirror.example.com/", "--", "true")
	assert.Equal(t, 1, r.code, r.said)
	assert.Contains(t, r.said, "must be an https address")
}

func TestDevRefusesAFolderInUse(t *testing.T) {
	t.Parallel()
	r := dev("--data", shared.dir, "--", "true")
	assert.Equal(t, 1, r.code, r.said)
	assert.Contains(t, r.said, shared.dir)
}
