package scimapi_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/scim"
)

const enterprise = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"

func TestAPersonFromCreationToDeletion(t *testing.T) {
	s := newSite(t)
	made := s.ask("POST", "/scim/v2/Users", `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:User","`+enterprise+`"],
		"userName":"ada@corp.test","externalId":"00u1","name":{"givenName":"Ada","familyName":"L"},"displayName":"Ada L","password":"do not keep me","locale":"en-US",
		"emails":[{"value":"private@home.test","type":"home"},{"value":"Ada@corp.test","type":"work","primary":true}],"groups":[],"active":true,"`+enterprise+`":{"department":"R"}}`)
	require.Equal(t, http.StatusCreated, made.status, made.document)
	id := made.text("id")
	assert.Equal(t, s.url+"/scim/v2/Users/"+id, made.header.Get("Location"))
	assert.Equal(t, "application/scim+json", made.header.Get("Content-Type"))
	assert.Equal(t, []any{"ada@corp.test", "00u1", "Ada L", true}, []any{made.document["userName"], made.document["externalId"], made.document["displayName"], made.document["active"]})
	assert.Equal(t, map[string]any{"department": "R"}, made.document[enterprise])
	meta, _ := made.document["meta"].(map[string]any)
	assert.Equal(t, []any{"User", s.url + "/scim/v2/Users/" + id}, []any{meta["resourceType"], meta["location"]})
	user := s.account(id)
	assert.Equal(t, []string{"ada", "Ada@corp.test"}, []string{user.Username, user.Email}, "the primary address is the account's")
	assert.NotContains(t, fmt.Sprint(made.document), "do not keep me")
	kept := ""
	require.NoError(t, postgres.InSnapshot(ctx, s.db, "test", func(tx postgres.Tx) (err error) {
		kept, err = postgres.Value[string](ctx, tx, "select (p.attributes::text || u::text) from scim_users p join users u on u.id = p.user_id", postgres.Args{})
		return err
	}))
	assert.NotContains(t, kept, "do not keep me")

	read := s.ask("GET", "/scim/v2/Users/"+id, "")
	assert.Equal(t, made.document, read.document)
	again := s.ask("POST", "/scim/v2/Users", `{"userName":"ADA@corp.test"}`)
	assert.Equal(t, []any{http.StatusConflict, "uniqueness"}, []any{again.status, again.text("scimType")})

	replaced := s.ask("PUT", "/scim/v2/Users/"+id, `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:User"],"id":"`+id+`","userName":"ada.l@corp.test","emails":[{"value":"ada.l@corp.test"}]}`)
	require.Equal(t, http.StatusOK, replaced.status, replaced.document)
	assert.Equal(t, []any{"ada.l@corp.test", nil, nil, true}, []any{replaced.document["userName"], replaced.document["displayName"], replaced.document["externalId"], replaced.document["active"]}, "what is not said is gone, but nobody comes or goes by it")
	assert.Equal(t, []string{"ada", "ada.l@corp.test"}, []string{s.account(id).Username, s.account(id).Email}, "the name to sign in with stays")

	assert.Equal(t, http.StatusNoContent, s.ask("DELETE", "/scim/v2/Users/"+id, "").status)
	assert.Equal(t, http.StatusNotFound, s.ask("GET", "/scim/v2/Users/"+id, "").status)
	assert.Equal(t, http.StatusNotFound, s.ask("DELETE", "/scim/v2/Users/"+id, "").status)
}

// The dialects of Okta and Entra, and of the RFC.
func TestPatchesOfAPerson(t *testing.T) {
	s := newSite(t)
	id := s.user("ada")
	path := "/scim/v2/Users/" + id
	for _, step := range []struct{ name, operations string }{
		{"Okta deactivates", `{"op":"replace","value":{"active":false}}`},
		{"Entra reactivates", `{"op":"Replace","path":"active","value":"True"}`},
		{"Entra deactivates", `{"op":"Replace","path":"active","value":"False"}`},
		{"the RFC reactivates", `{"op":"add","path":"urn:ietf:params:scim:schemas:core:2.0:User:active","value":true}`},
	} {
		got := s.patch(path, step.operations)
		require.Equal(t, http.StatusOK, got.status, "%s: %v", step.name, got.document)
		assert.Equal(t, strings.Contains(step.name, "reactivates"), got.document["active"], step.name)
	}

	got := s.patch(path, `{"op":"Add","path":"name.givenName","value":"Ada"},{"op":"Replace","value":{"name.familyName":"L","displayName":"Ada L","`+enterprise+`:department":"R","title":"Engineer"}},
		{"op":"replace","path":"emails[type eq \"work\"].value","value":"ada.l@corp.test"},{"op":"Add","path":"phoneNumbers[type eq \"mobile\"].value","value":"+1"},
		{"op":"replace","path":"externalId","value":"new"},{"op":"remove","path":"title"}`)
	require.Equal(t, http.StatusOK, got.status, got.document)
	assert.Equal(t, map[string]any{"givenName": "Ada", "familyName": "L"}, got.document["name"])
	assert.Equal(t, []any{map[string]any{"value": "ada.l@corp.test", "type": "work", "primary": true}}, got.document["emails"])
	assert.Equal(t, []any{map[string]any{"value": "+1", "type": "mobile"}}, got.document["phoneNumbers"], "one that was not there is made as the path describes it")
	assert.Equal(t, []any{"new", "Ada L", nil, map[string]any{"department": "R"}}, []any{got.document["externalId"], got.document["displayName"], got.document["title"], got.document[enterprise]})
	assert.Equal(t, "ada.l@corp.test", s.account(id).Email)

	got = s.patch(path, `{"op":"add","path":"emails","value":[{"value":"b@corp.test"},{"value":"ada.l@corp.test"}]},{"op":"remove","path":"phoneNumbers[type eq \"mobile\"]"},{"op":"remove","path":"`+enterprise+`:department"}`)
	require.Equal(t, http.StatusOK, got.status, got.document)
	assert.Len(t, got.list("emails"), 2, "what is there is not added twice")
	assert.Empty(t, got.document["phoneNumbers"])
	assert.Empty(t, got.document[enterprise])
}

func TestAPatchIsWholeOrNothing(t *testing.T) {
	s := newSite(t)
	id := s.user("ada")
	s.user("bob")
	path := "/scim/v2/Users/" + id
	before := s.ask("GET", path, "").document
	for operations, scimType := range map[string]string{
		`{"op":"replace","path":"active","value":false},{"op":"replace","path":"nothing","value":"x"}`:                      "invalidPath",
		`{"op":"replace","path":"active","value":false},{"op":"remove"}`:                                                    "noTarget",
		`{"op":"replace","path":"active","value":false},{"op":"replace","path":"active","value":"perhaps"}`:                 "invalidValue",
		`{"op":"replace","path":"active","value":false},{"op":"replace","path":"emails[value co \"zz\"].value","value":""}`: "noTarget",
		`{"op":"replace","path":"active","value":false},{"op":"replace","path":"userName","value":"BOB@corp.test"}`:         "uniqueness",
		`{"op":"replace","path":"active","value":false},{"op":"replace","path":"userName","value":""}`:                      "invalidValue",
		`{"op":"replace","path":"active","value":false},{"op":"steal","path":"userName","value":"x"}`:                       "invalidValue",
		``: "invalidValue",
	} {
		got := s.patch(path, operations)
		assert.Equal(t, scimType, got.text("scimType"), "%s: %v", operations, got.document)
		assert.Less(t, got.status, 500)
		assert.Equal(t, before, s.ask("GET", path, "").document, operations)
	}
}

func TestListsAreFilteredAndCut(t *testing.T) {
	s := newSite(t)
	var all []string
	for _, name := range []string{"ada", "bob", "eve", "kim"} {
		all = append(all, s.user(name))
	}
	list := func(query string) (found []string, total int) {
		t.Helper()
		got := s.ask("GET", "/scim/v2/Users?"+query, "")
		require.Equal(t, http.StatusOK, got.status, got.document)
		for _, one := range got.list("Resources") {
			found = append(found, one["id"].(string))
		}
		return found, int(got.document["totalResults"].(float64))
	}
	for filter, want := range map[string][]string{
		`userName eq "ADA@corp.test"`:                           {all[0]},
		`externalId eq "ext-bob"`:                               {all[1]},
		`externalId eq "EXT-bob"`:                               nil,
		`emails.value eq "eve@CORP.test"`:                       {all[2]},
		`emails[value eq "eve@corp.test"]`:                      {all[2]},
		`userName eq "nobody"`:                                  nil,
		`id eq "` + all[3] + `"`:                                {all[3]},
		`displayName eq "kim" and externalId eq "ext-kim"`:      {all[3]},
		`userName eq "ada@corp.test" and externalId eq "other"`: nil,
		`userName eq "ada" and userName eq "bob"`:               nil,
		`userName eq "x\u0000"`:                                 nil,
	} {
		found, total := list("filter=" + url.QueryEscape(filter))
		assert.Equal(t, want, found, filter)
		assert.Equal(t, len(want), total, filter)
	}
	for _, filter := range []string{`userName sw "a"`, `userName eq "a" or userName eq "b"`, `not (userName eq "a")`, `userName`, `active eq true`, `emails[type eq "work"]`, strings.Repeat("(", 3000)} {
		got := s.ask("GET", "/scim/v2/Users?filter="+url.QueryEscape(filter), "")
		assert.Equal(t, []any{http.StatusBadRequest, "invalidFilter"}, []any{got.status, got.text("scimType")}, filter)
	}

	for query, want := range map[string][]string{
		"": all, "count=2": all[:2], "startIndex=3&count=2": all[2:], "startIndex=4": all[3:], "startIndex=99": nil, "count=0": nil, "startIndex=0&count=1": all[:1], "startIndex=9223372036854775807": nil,
	} {
		found, total := list(query)
		assert.Equal(t, want, found, query)
		assert.Equal(t, 4, total, query)
	}
	assert.Equal(t, http.StatusBadRequest, s.ask("GET", "/scim/v2/Users?count=many", "").status)
	one := s.ask("GET", "/scim/v2/Users?count=1&attributes=userName", "").list("Resources")[0]
	assert.Equal(t, []any{"ada@corp.test", nil}, []any{one["userName"], one["displayName"]})
	assert.NotEmpty(t, one["id"])
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	s := newSite(t)
	id := s.user("ada")
	for at, status := range map[string]int{
		"POST /scim/v2/Users ": 400, "POST /scim/v2/Users {": 400, "POST /scim/v2/Users []": 400, "POST /scim/v2/Users null": 400, `POST /scim/v2/Users {}`: 400, `POST /scim/v2/Users {"userName":1}`: 400,
		`POST /scim/v2/Users {"userName":""}`: 400, `POST /scim/v2/Users {"userName":"x","emails":[{"value":"no address"}]}`: 400, `POST /scim/v2/Users {"userName":"x","displayName":"\u0000"}`: 400,
		`POST /scim/v2/Users {"userName":"\u0000"}`: 400, `POST /scim/v2/Users {"userName":"x","nickName":"` + strings.Repeat("n", 40_000) + `"}`: 400,
		`POST /scim/v2/Users {"userName":"` + strings.Repeat("n", 300) + `"}`: 400, `POST /scim/v2/Users {"schemas":["urn:other"],"userName":"x"}`: 400,
		"GET /scim/v2/Users/nobody": 404, "GET /scim/v2/Users/user-%00": 404, "GET /scim/v2/Users/user-1111111111111111": 404, "PUT /scim/v2/Users/user-1111111111111111 {\"userName\":\"x\"}": 404,
		"GET /scim/v2/nothing": 404, "PATCH /scim/v2/Users {}": 404, "GET /scim/v2/Me": 501, "GET /scim/v2/Bulk": 404, "GET /scim/v2": 400,
		"PATCH /scim/v2/Users/" + id + " {}": 400, "PATCH /scim/v2/Users/" + id: 400, "PUT /scim/v2/Users/" + id + " {}": 400,
		"GET /scim/v2/Groups/no%00group": 404, `POST /scim/v2/Groups {"displayName":""}`: 400, `POST /scim/v2/Groups {"displayName":"g","members":[{"value":"nobody"}]}`: 400,
		`POST /scim/v2/Groups {"displayName":"g","members":[{"value":"user-1111111111111111"}]}`: 400,
	} {
		method, rest, _ := strings.Cut(at, " ")
		path, body, _ := strings.Cut(rest, " ")
		got := s.ask(method, path, body)
		assert.Equal(t, status, got.status, "%.80s: %v", at, got.document)
		assert.NotEmpty(t, got.document["schemas"], "%.80s", at)
	}
	big := s.ask("POST", "/scim/v2/Groups", `{"displayName":"`+strings.Repeat("n", 5<<20)+`"}`)
	assert.Equal(t, http.StatusRequestEntityTooLarge, big.status)
	assert.Equal(t, 1, int(s.ask("GET", "/scim/v2/Users", "").document["totalResults"].(float64)), "nothing was made")
}

func TestOnlyASCIMTokenIsTaken(t *testing.T) {
	s := newSite(t)
	id := s.user("ada")
	user, _, err := s.who.CreateUserToken(ctx, system, ids.User(id), "", 0)
	require.NoError(t, err)
	for name, token := range map[string]string{"none": "", "a user's": user, "unknown": s.token[:len(s.token)-2] + "AA", "half": s.token[:20]} {
		for _, path := range []string{"Users", "Groups", "Users/" + id, "ServiceProviderConfig", "Schemas", "ResourceTypes", "nothing"} {
			got := s.askAs(token, "GET", "/scim/v2/"+path, "")
			assert.Equal(t, []any{http.StatusUnauthorized, "Bearer"}, []any{got.status, got.header.Get("WWW-Authenticate")}, name+" "+path)
			assert.NotContains(t, fmt.Sprint(got.document), "corp.test")
		}
	}
	list, err := s.who.SCIMTokens(ctx, system)
	require.NoError(t, err)
	require.Len(t, list, 1)
	assert.NotNil(t, list[0].LastUsedAt)
	require.NoError(t, s.who.RevokeSCIMToken(ctx, system, list[0].ID))
	assert.Equal(t, http.StatusUnauthorized, s.ask("GET", "/scim/v2/Users", "").status, "revoked")
}

func TestWhatTheServerCanIsDescribed(t *testing.T) {
	s := newSite(t)
	config := s.ask("GET", "/scim/v2/ServiceProviderConfig", "")
	require.Equal(t, http.StatusOK, config.status)
	can := func(feature string) any { return config.document[feature].(map[string]any)["supported"] }
	assert.Equal(t, []any{true, true, false, false, false, false}, []any{can("patch"), can("filter"), can("bulk"), can("changePassword"), can("sort"), can("etag")})
	assert.Len(t, s.ask("GET", "/scim/v2/ResourceTypes", "").list("Resources"), 2)
	schemas := map[any]bool{}
	for _, one := range s.ask("GET", "/scim/v2/Schemas", "").list("Resources") {
		schemas[one["id"]] = true
	}
	for _, id := range []string{"urn:ietf:params:scim:schemas:core:2.0:User", "urn:ietf:params:scim:schemas:core:2.0:Group", enterprise} {
		assert.True(t, schemas[id], id)
		assert.Equal(t, http.StatusOK, s.ask("GET", "/scim/v2/Schemas/"+id, "").status)
	}
}

func TestAPausedSiteAnswersForbidden(t *testing.T) {
	s := newSite(t)
	id, paused := s.user("ada"), true
	_, err := s.scim.ChangeSettings(ctx, system, scim.SettingsChange{Paused: &paused})
	require.NoError(t, err)
	got := s.patch("/scim/v2/Users/"+id, `{"op":"replace","value":{"active":false}}`)
	assert.Equal(t, http.StatusForbidden, got.status)
	assert.Contains(t, got.text("detail"), "paused")
	assert.Equal(t, true, s.ask("GET", "/scim/v2/Users/"+id, "").document["active"])
}
