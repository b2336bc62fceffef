package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTheAdminOfDevStepsUp holds that a script can do it with nothing but what dev gives.
func TestTheAdminOfDevStepsUp(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	const script = `
		ask() { curl -sS -o answer -w '%{http_code} ' -H "Authorization: Bearer $TFE_TOKEN" "$@"; tr -d '\n' < answer; echo; }
		stepup() { ask -d "{\"password\":\"$(cat "$HOLDFAST_DATA/admin-password")\",\"code\":\"$(holdfast admin totp)\"}" "$TFE_ADDRESS/api/v2/account/actions/step-up"; }
		cd "$HOLDFAST_DATA"
		ask -X POST "$TFE_ADDRESS/api/v2/account/totp/recovery-codes"
		stepup
		stepup
		ask -X POST "$TFE_ADDRESS/api/v2/account/totp/recovery-codes"`
	r := dev("--data", dir, "--", "sh", "-c", script)
	require.Equal(t, 0, r.code, r.said)
	answers := strings.Split(strings.TrimSpace(r.stdout), "\n")
	require.Len(t, answers, 4, r.stdout)
	assert.Contains(t, answers[0], `403 {"errors":[{"status":"403","code":"step_up_required"`)
	assert.Contains(t, answers[0], `"meta":{"max-age":900}`)
	assert.Contains(t, answers[1], `200 {"data":{"type":"step-ups"`)
	// The half minute may have passed in between; the same code is refused.
	assert.Regexp(t, `^(403 .*"code":"step_up_failed"|200 )`, answers[2])
	assert.Contains(t, answers[3], `201 {"data":{"type":"totp-factors"`)

	file := filepath.Join(dir, "admin-totp")
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	secret, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.NotContains(t, r.said, strings.TrimSpace(string(secret)))
	second := dev("--data", dir, "--", "sh", "-c", `cat "$HOLDFAST_ADMIN_TOTP_FILE"`)
	assert.Equal(t, string(secret), second.stdout, "a second start keeps the factor")

	require.NoError(t, os.Remove(file))
	third := dev("--data", dir, "--", "sh", "-c", script)
	require.Equal(t, 0, third.code, third.said)
	assert.Contains(t, third.stdout, `"code":"factor_too_new"`, "a lost secret is replaced as by a reset")
	replaced, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.NotEqual(t, secret, replaced)
}
