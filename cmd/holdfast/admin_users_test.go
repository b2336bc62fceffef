package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
)

// adminUsers runs the command line with input and gives what it printed.
func adminUsers(t *testing.T, input string, args ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	inPath, outPath := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	require.NoError(t, os.WriteFile(inPath, []byte(input), 0o600))
	in, err := os.Open(inPath)
	require.NoError(t, err)
	defer in.Close()
	out, err := os.Create(outPath)
	require.NoError(t, err)
	defer out.Close()
	stdin, stdout := os.Stdin, os.Stdout
	os.Stdin, os.Stdout = in, out
	defer func() { os.Stdin, os.Stdout = stdin, stdout }()

	var line struct {
		Users adminUsersCmd `cmd:""`
	}
	parser, err := kong.New(&line, kong.Exit(func(int) { t.Error("kong ended the program") }), kong.BindTo(context.Background(), (*context.Context)(nil)))
	require.NoError(t, err)
	command, err := parser.Parse(append([]string{"users"}, args...))
	if err == nil {
		err = command.Run()
	}
	printed, readErr := os.ReadFile(outPath)
	require.NoError(t, readErr)
	return string(printed), err
}

func TestAdminUsersCreatePrintsATokenThatWorks(t *testing.T) {
	db := testdb.New(t)
	t.Setenv("HOLDFAST_DATABASE_URL", testdb.URL(t))
	who, ctx := accounts.New(db, keyless{}), context.Background()
	var org accounts.Organization
	require.NoError(t, postgres.InTx(ctx, db, "test", func(tx postgres.Tx) (err error) {
		org, err = who.CreateOrganization(ctx, tx, authz.System(), accounts.NewOrganization{Name: "acme"})
		return err
	}))

	out, err := adminUsers(t, "", "create", "ada", "--org", "acme", "--role", "owner")
	require.NoError(t, err)
	actor, err := who.Authenticate(ctx, strings.TrimSuffix(out, "\n"))
	require.NoError(t, err)
	assert.Equal(t, map[ids.Organization]authz.Role{org.ID: authz.Owner}, actor.Roles)
	assert.False(t, actor.SiteAdmin)

	out, err = adminUsers(t, "", "create", "root", "--site-admin")
	require.NoError(t, err)
	actor, err = who.Authenticate(ctx, strings.TrimSuffix(out, "\n"))
	require.NoError(t, err)
	assert.True(t, actor.SiteAdmin)
	assert.Empty(t, actor.Roles)

	_, err = adminUsers(t, "", "create", "ada")
	assert.True(t, fault.Is(err, fault.Invalid))
	for _, wrong := range [][]string{{"--org", "acme"}, {"--role", "owner"}, {"--org", "acme", "--role", "king"}, {"--org", "nowhere", "--role", "owner"}} {
		_, err = adminUsers(t, "", append([]string{"create", "eve"}, wrong...)...)
		assert.Errorf(t, err, "%v", wrong)
	}
	_, err = who.UserByName(ctx, authz.System(), "eve")
	assert.True(t, fault.Is(err, fault.NotFound), "a refused command leaves no user")
}

func TestAdminUsersSetPasswordReadsStandardInput(t *testing.T) {
	db := testdb.New(t)
	t.Setenv("HOLDFAST_DATABASE_URL", testdb.URL(t))
	ctx := context.Background()
	_, err := accounts.New(db, nil).CreateUser(ctx, authz.System(), accounts.NewUser{Username: "ada"})
	require.NoError(t, err)

	for _, input := range []string{"correct horse battery\n", "correct horse battery"} {
		_, err = adminUsers(t, input, "set-password", "ada")
		assert.NoErrorf(t, err, "%q", input)
	}
	_, err = adminUsers(t, "short\n", "set-password", "ada")
	assert.True(t, fault.Is(err, fault.Invalid))
	_, err = adminUsers(t, "", "set-password", "ada")
	assert.True(t, fault.Is(err, fault.Invalid))
	_, err = adminUsers(t, "correct horse battery\n", "set-password", "eve")
	assert.True(t, fault.Is(err, fault.NotFound))
}

// keyless is a sealer that makes no keys.
type keyless struct{ accounts.Sealer }

func (keyless) CreateOrganizationKey(context.Context, postgres.Tx, ids.Organization) error {
	return nil
}
