-- name: Append
insert into audit_entries (id, organization_id, actor_kind, actor_id, action, object_kind, object_id, reason, details, request_id)
values (@id, @organization_id, @actor_kind, @actor_id, @action, @object_kind, @object_id, @reason, @details, @request_id);

-- fragment: OfOrganization
-- What was done in the organization. That it was made is an action on the site.
from audit_entries
 where organization_id = @organization_id and action <> 'organization.created' and (@since::timestamptz is null or at > @since)

-- name: Trail
select id, actor_kind, actor_id, action, object_kind, object_id, reason, details::text as details, request_id, at
{OfOrganization}
 order by at desc, id desc limit @limit offset @offset;

-- name: TrailCount
select count(*) {OfOrganization};
