package scimapi_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// membersIn gives the ids of the members in a document.
func membersIn(r reply) []string {
	found := []string{}
	for _, member := range r.list("members") {
		found = append(found, member["value"].(string))
	}
	return found
}

func sorted(list ...string) []string {
	slices.Sort(list)
	return list
}

func TestAGroupFromCreationToDeletion(t *testing.T) {
	s := newSite(t)
	ada, bob, eve := s.user("ada"), s.user("bob"), s.user("eve")
	made := s.ask("POST", "/scim/v2/Groups", `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:Group"],"displayName":"devs","externalId":"g1","members":[{"value":"`+ada+`","display":"x"},{"value":"`+ada+`"}]}`)
	require.Equal(t, http.StatusCreated, made.status, made.document)
	path := "/scim/v2/Groups/" + made.text("id")
	assert.Equal(t, []any{map[string]any{"value": ada, "type": "User", "display": "ada@corp.test"}}, made.document["members"])
	assert.Equal(t, made.document, s.ask("GET", path, "").document)

	for _, step := range []struct {
		name, operations string
		want             []string
	}{
		{"Okta adds", `{"op":"add","path":"members","value":[{"value":"` + bob + `","display":"bob"},{"value":"` + ada + `"}]}`, sorted(ada, bob)},
		{"Entra removes by a list", `{"op":"Remove","path":"members","value":[{"value":"` + ada + `"}]}`, []string{bob}},
		{"Entra adds one", `{"op":"Add","path":"members","value":{"value":"` + eve + `"}}`, sorted(bob, eve)},
		{"Okta removes by a path", `{"op":"remove","path":"members[value eq \"` + bob + `\"]"}`, []string{eve}},
		{"who is not in it is removed again", `{"op":"remove","path":"members[value eq \"` + bob + `\"]"}`, []string{eve}},
		{"all are replaced", `{"op":"replace","path":"members","value":[{"value":"` + ada + `"},{"value":"` + bob + `"}]}`, sorted(ada, bob)},
		{"Okta renames", `{"op":"replace","value":{"id":"` + made.text("id") + `","displayName":"developers"}}`, sorted(ada, bob)},
		{"all are removed", `{"op":"remove","path":"members"}`, []string{}},
	} {
		got := s.patch(path, step.operations)
		require.Equal(t, http.StatusOK, got.status, "%s: %v", step.name, got.document)
		assert.Equal(t, step.want, membersIn(got), step.name)
		assert.Equal(t, got.document["members"], s.ask("GET", path, "").document["members"], step.name)
	}
	assert.Equal(t, []string{"developers", "g1"}, []string{s.ask("GET", path, "").text("displayName"), s.ask("GET", path, "").text("externalId")})

	replaced := s.ask("PUT", path, `{"displayName":"devs","members":[{"value":"`+eve+`"}]}`)
	require.Equal(t, http.StatusOK, replaced.status, replaced.document)
	assert.Equal(t, []string{eve}, membersIn(replaced))
	s.ask("DELETE", "/scim/v2/Users/"+eve, "")
	assert.Empty(t, membersIn(s.ask("GET", path, "")), "who is deleted is in no group")

	broken := s.patch(path, `{"op":"replace","path":"displayName","value":"other"},{"op":"add","path":"members","value":[{"value":"`+eve+`"}]}`)
	assert.Equal(t, []any{http.StatusBadRequest, "invalidValue"}, []any{broken.status, broken.text("scimType")})
	assert.Equal(t, "devs", s.ask("GET", path, "").text("displayName"))

	assert.Equal(t, http.StatusNoContent, s.ask("DELETE", path, "").status)
	assert.Equal(t, http.StatusNotFound, s.ask("GET", path, "").status)
	assert.Equal(t, http.StatusNotFound, s.ask("DELETE", path, "").status)
	assert.Equal(t, http.StatusNotFound, s.patch(path, `{"op":"remove","path":"members"}`).status)
}

func TestListsOfGroups(t *testing.T) {
	s := newSite(t)
	ada := s.user("ada")
	for _, name := range []string{"devs", "ops"} {
		require.Equal(t, http.StatusCreated, s.ask("POST", "/scim/v2/Groups", `{"displayName":"`+name+`","externalId":"x-`+name+`","members":[{"value":"`+ada+`"}]}`).status)
	}
	for query, want := range map[string][]string{
		"": {"devs", "ops"}, "filter=displayName+eq+%22OPS%22": {"ops"}, "filter=externalId+eq+%22x-devs%22": {"devs"}, "filter=displayName+eq+%22other%22": nil, "startIndex=2": {"ops"},
	} {
		got := s.ask("GET", "/scim/v2/Groups?"+query, "")
		require.Equal(t, http.StatusOK, got.status, got.document)
		var names []string
		for _, g := range got.list("Resources") {
			names = append(names, g["displayName"].(string))
			assert.Len(t, g["members"], 1)
		}
		assert.Equal(t, want, names, query)
	}
	got := s.ask("GET", "/scim/v2/Groups?excludedAttributes=members", "")
	for _, g := range got.list("Resources") {
		assert.NotContains(t, g, "members")
	}
	assert.Equal(t, http.StatusBadRequest, s.ask("GET", "/scim/v2/Groups?filter=members.value+eq+%22"+ada+"%22", "").status)
}
