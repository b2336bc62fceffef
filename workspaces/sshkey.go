package workspaces

import (
	"context"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// SSHKey is a private key of an organization with which runs fetch modules over SSH. Its
// value is sealed and shown to nobody again.
type SSHKey struct {
	ID           ids.SSHKey
	Organization ids.Organization
	Name         string
	CreatedAt    time.Time
}

const maxSSHKey = 64 << 10

func sshKeyLabel(id ids.SSHKey) string { return "ssh-key/" + string(id) }

func checkSSHKey(name, value *string) error {
	if name != nil {
		if *name == "" {
			return accounts.Invalid("name", "Name can't be blank")
		}
		if err := accounts.CheckText("name", "Name", *name, maxSetName); err != nil {
			return err
		}
	}
	if value == nil {
		return nil
	}
	if strings.TrimSpace(*value) == "" {
		return accounts.Invalid("value", "Value can't be blank")
	}
	return accounts.CheckText("value", "Value", *value, maxSSHKey)
}

// seesSSHKeys tells whether the actor may know which keys there are: who manages them, and who
// can give one to some workspace.
func seesSSHKeys(actor authz.Actor, org ids.Organization) bool {
	places := authz.Where(actor, authz.WorkspaceUpdate, org)
	return places.All || len(places.Projects) > 0 || len(places.Workspaces) > 0 || authz.Can(actor, authz.VCSManage, authz.Object{Organization: org})
}

// SSHKeys gives the organization's keys by name, and how many there are. Forbidden for those who
// neither manage them nor can give one to a workspace.
func (s *Service) SSHKeys(ctx context.Context, actor authz.Actor, organization string, page Page) (list []SSHKey, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "workspaces.ssh-keys", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.OrganizationRead, organization)
		if err != nil {
			return err
		}
		if !seesSSHKeys(actor, org.ID) {
			return authz.Forbidden(authz.VCSManage, authz.Object{Organization: org.ID, Noun: "organization", Name: org.Name})
		}
		args := postgres.Args{"organization_id": org.ID, "limit": page.Limit(), "offset": page.Offset()}
		if list, err = postgres.All[SSHKey](ctx, tx, queries.Get("SSHKeys"), args); err != nil {
			return err
		}
		total, err = postgres.Value[int](ctx, tx, queries.Get("SSHKeysCount"), args)
		return err
	})
	return list, total, err
}

// SSHKey gives a key. NotFound for those who do not see the keys.
func (s *Service) SSHKey(ctx context.Context, actor authz.Actor, id ids.SSHKey) (key SSHKey, err error) {
	err = postgres.InSnapshot(ctx, s.db, "workspaces.ssh-key", func(tx postgres.Tx) error {
		key, err = allowedSSHKey(ctx, tx, actor, authz.OrganizationRead, id)
		return err
	})
	return key, err
}

func allowedSSHKey(ctx context.Context, tx postgres.Tx, actor authz.Actor, action authz.Action, id ids.SSHKey) (SSHKey, error) {
	key, err := postgres.One[SSHKey](ctx, tx, queries.Get("SSHKeyByID"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return SSHKey{}, fault.Missing("SSH key", string(id))
	}
	if err != nil {
		return SSHKey{}, err
	}
	if !seesSSHKeys(actor, key.Organization) {
		return SSHKey{}, fault.Missing("SSH key", string(id))
	}
	if err := authz.Allow(actor, action, authz.Object{Organization: key.Organization, Noun: "SSH key", Name: string(id)}); err != nil {
		return SSHKey{}, err
	}
	return key, nil
}

// CreateSSHKey keeps a key. A blank name or value is Invalid. For owners.
func (s *Service) CreateSSHKey(ctx context.Context, actor authz.Actor, organization, name, value string) (key SSHKey, err error) {
	err = postgres.InTx(ctx, s.db, "workspaces.create-ssh-key", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.VCSManage, organization)
		if err != nil {
			return err
		}
		if err := checkSSHKey(&name, &value); err != nil {
			return err
		}
		id := ids.New[ids.SSHKey]()
		sealed, err := s.sealer.SealValue(ctx, tx, org.ID, sshKeyLabel(id), []byte(value))
		if err != nil {
			return err
		}
		key, err = postgres.One[SSHKey](ctx, tx, queries.Get("SSHKeyInsert"), postgres.Args{"id": id, "organization_id": org.ID, "name": name, "value_sealed": sealed})
		if err != nil {
			return err
		}
		return recordSSHKey(ctx, tx, actor, key, "ssh-key.created")
	})
	return key, err
}

// UpdateSSHKey changes what is said. It is refused like CreateSSHKey.
func (s *Service) UpdateSSHKey(ctx context.Context, actor authz.Actor, id ids.SSHKey, name, value *string) (key SSHKey, err error) {
	err = postgres.InTx(ctx, s.db, "workspaces.update-ssh-key", func(tx postgres.Tx) error {
		before, err := allowedSSHKey(ctx, tx, actor, authz.VCSManage, id)
		if err != nil {
			return err
		}
		if err := checkSSHKey(name, value); err != nil {
			return err
		}
		var sealed []byte
		if value != nil {
			if sealed, err = s.sealer.SealValue(ctx, tx, before.Organization, sshKeyLabel(id), []byte(*value)); err != nil {
				return err
			}
		}
		key, err = postgres.One[SSHKey](ctx, tx, queries.Get("SSHKeyUpdate"), postgres.Args{"id": id, "name": name, "value_sealed": sealed})
		if postgres.NoRow(err) {
			return fault.Missing("SSH key", string(id)) // deleted since it was read
		}
		if err != nil {
			return err
		}
		return recordSSHKey(ctx, tx, actor, key, "ssh-key.updated")
	})
	return key, err
}

// DeleteSSHKey removes a key; workspaces that had it have none then. Runs that have begun
// keep what they were given.
func (s *Service) DeleteSSHKey(ctx context.Context, actor authz.Actor, id ids.SSHKey) error {
	return postgres.InTx(ctx, s.db, "workspaces.delete-ssh-key", func(tx postgres.Tx) error {
		key, err := allowedSSHKey(ctx, tx, actor, authz.VCSManage, id)
		if err != nil {
			return err
		}
		if _, err := postgres.Exec(ctx, tx, queries.Get("SSHKeyRelease"), postgres.Args{"id": id}); err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, queries.Get("SSHKeyDelete"), postgres.Args{"id": id})
		if err == nil && n == 0 {
			err = fault.Missing("SSH key", string(id))
		}
		if err != nil {
			return err
		}
		return recordSSHKey(ctx, tx, actor, key, "ssh-key.deleted")
	})
}

// AssignSSHKey gives the workspace a key of its organization, or none when id is empty.
func (s *Service) AssignSSHKey(ctx context.Context, actor authz.Actor, workspace ids.Workspace, id ids.SSHKey) (w Workspace, err error) {
	err = postgres.InTx(ctx, s.db, "workspaces.assign-ssh-key", func(tx postgres.Tx) error {
		before, err := Allowed(ctx, tx, actor, authz.WorkspaceUpdate, workspace)
		if err != nil {
			return err
		}
		if id != "" {
			key, err := allowedSSHKey(ctx, tx, actor, authz.OrganizationRead, id)
			if err != nil {
				return err
			}
			if key.Organization != before.Organization {
				return fault.Missing("SSH key", string(id))
			}
		}
		n, err := postgres.Exec(ctx, tx, queries.Get("SSHKeyAssign"), postgres.Args{"id": workspace, "ssh_key_id": id})
		if err == nil && n == 0 {
			err = fault.Missing("workspace", string(workspace))
		}
		if err != nil {
			return err
		}
		if w, err = LoadShown(ctx, tx, workspace); err != nil {
			return err
		}
		return record(ctx, tx, actor, w, "workspace.ssh-key-set", map[string]any{"ssh_key": id})
	})
	return w, err
}

// SSHKeyValue opens the key of a workspace for the snapshot of a run. It asks no authz:
// callers show the value to nobody.
func (s *Service) SSHKeyValue(ctx context.Context, tx postgres.Tx, w Workspace) (string, error) {
	sealed, err := postgres.Value[[]byte](ctx, tx, queries.Get("SSHKeySealed"), postgres.Args{"id": w.SSHKey})
	if err != nil {
		return "", err
	}
	plain, err := s.sealer.OpenValue(ctx, tx, w.Organization, sshKeyLabel(w.SSHKey), sealed)
	return string(plain), err
}

func recordSSHKey(ctx context.Context, tx postgres.Tx, actor authz.Actor, key SSHKey, action string) error {
	return audit.Append(ctx, tx, audit.Entry{
		Organization: key.Organization, Actor: actor, Action: action, ObjectKind: "ssh-key", ObjectID: string(key.ID), Details: map[string]any{"name": key.Name},
	})
}
