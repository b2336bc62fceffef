package testdb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/migrations"
)

var template struct {
	sync.Mutex
	name string // empty until the template is known to exist
}

// templateLock is the advisory lock under which test processes of one server make the template.
const templateLock = 4_617_315_517_961_601

// ensureTemplate makes the migrated template unless this or another process did.
func ensureTemplate(ctx context.Context, server string) (string, error) {
	template.Lock()
	defer template.Unlock()
	if template.name != "" {
		return template.name, nil
	}
	digest, err := migrationsDigest()
	if err != nil {
		return "", err
	}
	name := "holdfast_template_" + digest
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // which also frees the lock
	if _, err := conn.Exec(ctx, "select pg_advisory_lock($1)", int64(templateLock)); err != nil {
		return "", err
	}
	var exists bool
	if err := conn.QueryRow(ctx, "select exists (select from pg_database where datname = $1)", name).Scan(&exists); err != nil {
		return "", err
	}
	if !exists {
		if err := makeTemplate(ctx, conn, server, name); err != nil {
			return "", err
		}
	}
	template.name = name
	return name, nil
}

// makeTemplate migrates a database under a working name and gives it its own name last.
func makeTemplate(ctx context.Context, conn *pgx.Conn, server, name string) error {
	working := name + "_new"
	for _, sql := range []string{"drop database if exists " + working + " with (force)", "create database " + working} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	if err := migrations.Up(ctx, withDatabase(server, working)); err != nil {
		return err
	}
	for _, sql := range []string{
		"alter database " + working + " with allow_connections false", // a connection would keep it from being copied
		"alter database " + working + " rename to " + name,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

func migrationsDigest() (string, error) {
	hash := sha256.New()
	err := fs.WalkDir(migrations.Files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(migrations.Files, path)
		fmt.Fprintf(hash, "%s %d\n%s", path, len(content), content)
		return err
	})
	return hex.EncodeToString(hash.Sum(nil))[:16], err
}

// administrator is the one connection by which this process makes and drops its databases:
// PostgreSQL starts a process for each, which costs as much as a copy of the template.
var administrator struct {
	sync.Mutex
	conn *pgx.Conn
}

func administrate(ctx context.Context, server, sql string) (err error) {
	a := &administrator
	a.Lock()
	defer a.Unlock()
	if a.conn == nil || a.conn.IsClosed() {
		if a.conn, err = pgx.Connect(ctx, server); err != nil {
			return err
		}
	}
	_, err = a.conn.Exec(ctx, sql)
	return err
}
