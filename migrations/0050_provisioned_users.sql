-- +goose Up
-- A user whom a site admin deletes is no person of the identity provider any more, and in no group of it.

-- +goose StatementBegin
create function forget_person() returns trigger language plpgsql as $$
begin
    delete from scim_users where user_id = new.id;
    return null;
end $$;
-- +goose StatementEnd
create trigger forget_person after update of deleted_at on users for each row
    when (old.deleted_at is null and new.deleted_at is not null) execute function forget_person();
