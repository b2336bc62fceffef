-- name: Append
insert into audit_entries (id, organization_id, actor_kind, actor_id, action, object_kind, object_id, reason, details)
values (@id, @organization_id, @actor_kind, @actor_id, @action, @object_kind, @object_id, @reason, @details);
