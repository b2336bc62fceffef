package instant

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/require"
)

func TestAPlanAndAnApplyAreOverAtOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := Start("1.12.6")
	t.Cleanup(s.Close)
	api, err := tfe.NewClient(&tfe.Config{Address: "https://" + s.Host(), Token: "none", HTTPClient: s.http.Client()})
	require.NoError(t, err)

	w, err := api.Workspaces.Read(ctx, "demo", "w")
	require.NoError(t, err)
	require.Equal(t, "1.12.6", w.TerraformVersion)
	cv, err := api.ConfigurationVersions.Create(ctx, w.ID, tfe.ConfigurationVersionCreateOptions{})
	require.NoError(t, err)
	require.Equal(t, s.url("/upload"), cv.UploadURL)
	r, err := api.Runs.Create(ctx, tfe.RunCreateOptions{Workspace: w, ConfigurationVersion: cv})
	require.NoError(t, err)
	require.Equal(t, tfe.RunApplied, r.Status)
	require.True(t, r.HasChanges)

	plan, err := api.Plans.Logs(ctx, r.Plan.ID)
	require.NoError(t, err)
	said, err := io.ReadAll(plan)
	require.NoError(t, err)
	require.Contains(t, string(said), "Planned.")
	apply, err := api.Applies.Logs(ctx, r.Apply.ID)
	require.NoError(t, err)
	said, err = io.ReadAll(apply)
	require.NoError(t, err)
	require.Contains(t, string(said), "Applied.")
}

func TestALogIsReadInWindows(t *testing.T) {
	t.Parallel()
	read := func(query string) string {
		r, err := http.NewRequest(http.MethodGet, "https://h/logs/plan?"+query, nil)
		require.NoError(t, err)
		return window("\x02abc\x03", r)
	}
	require.Equal(t, "\x02a", read("limit=2&offset=0"))
	require.Equal(t, "c\x03", read("limit=65536&offset=3"))
	require.Empty(t, read("limit=65536&offset=5"))
	require.Empty(t, read(""))
}
