package scimapi_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/scim"
	"github.com/holdfast-run/holdfast/scimapi"
)

var (
	ctx    = context.Background()
	system = authz.System()
)

// site is a server that an identity provider speaks with.
type site struct {
	*testing.T
	db    *postgres.DB
	who   *accounts.Service
	scim  *scim.Service
	url   string
	token string
}

func newSite(t *testing.T) *site {
	t.Helper()
	t.Parallel()
	path := t.TempDir() + "/keyring"
	require.NoError(t, envelope.CreateKeyring(path))
	ring, err := envelope.OpenKeyring(path)
	require.NoError(t, err)
	db := testdb.New(t)
	s := &site{T: t, db: db, who: accounts.New(db, artifacts.New(db, nil, ring))}
	s.scim = scim.New(db, s.who.RequireStepUp)
	server := httptest.NewUnstartedServer(nil)
	s.url = "http://" + server.Listener.Addr().String()
	server.Config.Handler = scimapi.New(scimapi.Deps{Authenticate: s.who.AuthenticateSCIM, SCIM: s.scim, Address: s.url, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	server.Start()
	t.Cleanup(server.Close)
	on := true
	_, err = s.scim.ChangeSettings(ctx, system, scim.SettingsChange{Enabled: &on})
	require.NoError(t, err)
	s.token, _, err = s.scim.CreateToken(ctx, system, accounts.NewToken{Description: "idp"})
	require.NoError(t, err)
	return s
}

// reply is what came back: the status and the document, which is nil when there is none.
type reply struct {
	status   int
	document map[string]any
	header   http.Header
}

// text gives a member of the document that is text.
func (r reply) text(name string) string {
	text, _ := r.document[name].(string)
	return text
}

// list gives a member that is a list of objects.
func (r reply) list(name string) (found []map[string]any) {
	values, _ := r.document[name].([]any)
	for _, value := range values {
		object, _ := value.(map[string]any)
		found = append(found, object)
	}
	return found
}

func (s *site) ask(method, path, body string) reply {
	s.Helper()
	return s.askAs(s.token, method, path, body)
}

func (s *site) askAs(token, method, path, body string) reply {
	s.Helper()
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	require.NoError(s, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	r.Header.Set("Content-Type", "application/scim+json; charset=utf-8")
	answer, err := http.DefaultClient.Do(r)
	require.NoError(s, err)
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	require.NoError(s, err)
	got := reply{status: answer.StatusCode, header: answer.Header}
	if len(content) > 0 {
		require.NoError(s, json.Unmarshal(content, &got.document), string(content))
	}
	return got
}

// user makes a person and gives its id.
func (s *site) user(name string) string {
	s.Helper()
	made := s.ask("POST", "/scim/v2/Users", `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:User"],"userName":"`+name+`@corp.test","externalId":"ext-`+name+`","displayName":"`+name+`","emails":[{"value":"`+name+`@corp.test","type":"work","primary":true}],"active":true}`)
	require.Equal(s, http.StatusCreated, made.status, made.document)
	return made.text("id")
}

func (s *site) account(id string) accounts.User {
	s.Helper()
	u, err := s.who.User(ctx, system, ids.User(id))
	require.NoError(s, err)
	return u
}

// patch sends operations, which are JSON.
func (s *site) patch(path, operations string) reply {
	s.Helper()
	return s.ask("PATCH", path, `{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[`+operations+`]}`)
}
