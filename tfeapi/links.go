package tfeapi

import (
	"time"

	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/fault"
)

// linkKind is a sort of access that an address grants by itself, for requests that
// clients send without a bearer token: uploads and logs.
type linkKind struct {
	subject string // what the token is bound to, before the id
	path    string // before the id
	suffix  string // between the id and the token
}

var (
	uploadStateLink         = linkKind{"upload state", "/api/v2/links/state-versions/", "/upload/"}
	uploadJSONStateLink     = linkKind{"upload json state", "/api/v2/links/state-versions/", "/upload-json/"}
	uploadConfigurationLink = linkKind{"upload configuration", "/api/v2/links/configuration-versions/", "/upload/"}
	uploadPolicySetLink     = linkKind{"upload policy set", "/api/v2/links/policy-set-versions/", "/upload/"}
	planLogLink             = linkKind{"read plan log", "/api/v2/links/plans/", "/log/"}
	queryLogLink            = linkKind{"read query log", "/api/v2/links/queries/", "/log/"}
	applyLogLink            = linkKind{"read apply log", "/api/v2/links/applies/", "/log/"}
)

// template is the link's route. The token is the last part of the path, never in
// the query, which a log reader replaces.
func (k linkKind) template() string { return k.path + "{id}" + k.suffix + "{token}" }

// uploadLinkLifetime bounds when an upload may be repeated. Whether it may begin at
// all is decided by the thing's own deadline in the database.
const uploadLinkLifetime = time.Hour

// logLinkLifetime is long because a client asks for a log's address once and then
// waits in it for as long as a person takes to approve.
const logLinkLifetime = 8 * 24 * time.Hour

// link gives an absolute address that is good for id until expires.
func (s *server) link(kind linkKind, id string, expires time.Time) string {
	return s.Address + kind.path + id + kind.suffix + s.Links.Mint(kind.subject+" "+id, expires)
}

// logLink is a link for reading. It expires at the end of a day, so that a document
// reads the same all day long.
func (s *server) logLink(kind linkKind, id string) string {
	return s.link(kind, id, clock.Now().Truncate(24*time.Hour).Add(24*time.Hour+logLinkLifetime))
}

// checkLink answers nil when the request's token was minted for the thing in its path.
func (s *server) checkLink(kind linkKind, r *request) error {
	err := s.Links.Verify(r.vars["token"], kind.subject+" "+r.vars["id"], clock.Now())
	if err != nil && !fault.Is(err, fault.NotFound) {
		return fault.New(fault.NotFound, "link_invalid", "This address is not valid. Ask the server for a new one.").Because(err)
	}
	return err
}
