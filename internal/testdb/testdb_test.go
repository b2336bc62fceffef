package testdb_test

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
)

// TestMain lets this test binary play a test process that is killed with its server running.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "play-test-process" {
		address, _, err := testdb.StartServer(context.Background())
		if err != nil {
			address = err.Error()
		}
		_, _ = os.Stdout.WriteString(address + "\n")
		select {}
	}
	os.Exit(m.Run())
}

func execute(t *testing.T, db *postgres.DB, sql string) error {
	t.Helper()
	return postgres.InTx(context.Background(), db, "test", func(tx postgres.Tx) error {
		_, err := postgres.Exec(context.Background(), tx, sql, postgres.Args{})
		return err
	})
}

func TestEachTestHasItsOwnDatabase(t *testing.T) {
	for _, name := range []string{"first", "second"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := testdb.New(t)
			require.NoError(t, execute(t, db, "create table mine (n int)"), "a table of the other test would be in the way")
			assert.Equal(t, testdb.URL(t), testdb.URL(t))
			err := postgres.InTx(context.Background(), db, "test", func(tx postgres.Tx) error {
				applied, err := postgres.Value[int64](context.Background(), tx, "select count(*) from goose_db_version where version_id > 0", postgres.Args{})
				assert.Positive(t, applied, "the migrations are in place")
				return err
			})
			require.NoError(t, err)
		})
	}
}

func TestWantViolationNamesBoth(t *testing.T) {
	db := testdb.New(t)
	require.NoError(t, execute(t, db, "create table even (n int constraint even_only check (n % 2 = 0))"))
	refused := execute(t, db, "insert into even values (3)")
	testdb.WantViolation(t, refused, "23514", "even_only")

	for _, wrong := range [][2]string{{"23505", "even_only"}, {"23514", "odd_only"}} {
		observed := &testing.T{}
		testdb.WantViolation(observed, refused, wrong[0], wrong[1])
		assert.True(t, observed.Failed(), "%v must not pass", wrong)
	}
}

func TestTheServerGoesWithItsProcess(t *testing.T) {
	process := exec.Command(os.Args[0], "play-test-process")
	out, err := process.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, process.Start())
	address, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	db, err := postgres.Open(context.Background(), strings.TrimSpace(address))
	require.NoError(t, err, "the server answers")
	defer db.Close()
	var folder string // of the server
	require.NoError(t, postgres.InSnapshot(context.Background(), db, "test", func(tx postgres.Tx) error {
		data, err := postgres.Value[string](context.Background(), tx, "show data_directory", postgres.Args{})
		folder = filepath.Dir(data)
		return err
	}))
	require.DirExists(t, folder)

	require.NoError(t, process.Process.Kill())
	_ = process.Wait()
	assert.Eventually(t, func() bool {
		_, err := os.Stat(folder)
		return errors.Is(err, fs.ErrNotExist) && db.Ping(context.Background()) != nil
	}, time.Minute, 20*time.Millisecond)
}
