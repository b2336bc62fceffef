package artifacts

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/ids"
)

// Statements lets a test show every statement to PostgreSQL.
var Statements = queries

// Salvage reads the object at key as one could after the loss of the database: from
// the store and the key ring alone, with first versions of the organization's key.
func Salvage(ctx context.Context, store ObjectStore, ring envelope.Keyring, key string) ([]byte, error) {
	get := func(key string) []byte {
		r, err := store.Get(ctx, key)
		if err != nil {
			return nil
		}
		content, _ := io.ReadAll(r)
		return content
	}
	sealed := get(key)
	header, err := envelope.ReadHeader(bytes.NewReader(sealed))
	if err != nil {
		return nil, err
	}
	var file wrappedKeyFile
	if err := json.Unmarshal(get(fmt.Sprintf("%s/organization-key.1", header.Organization)), &file); err != nil {
		return nil, err
	}
	row := keyRow{Version: 1, RootVersion: file.RootVersion, Wrapped: file.Wrapped}
	organizationKey, err := ring.Unwrap(ctx, keyAAD(header.Organization, row.Version), row.wrapped())
	if err != nil {
		return nil, err
	}
	id := ids.Object(key[strings.LastIndex(key, "/")+1:])
	dek, err := envelope.OpenValue(organizationKey, dekAAD(header.Organization, id), get(key+".dek.1"))
	if err != nil {
		return nil, err
	}
	plain, err := envelope.Open(bytes.NewReader(sealed), envelope.Key(dek), header)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(plain)
}
