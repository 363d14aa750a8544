//! The login that serves: whether it may take the roles, and what else it could do.
//!
//! Connections take a role right after connecting, and the policies bind every role. A caller that smuggles a
//! statement into a connection can still drop the role (`RESET ROLE`) and then has the rights of the login. So the
//! login should have none: it owns nothing, inherits nothing and may bypass nothing. Another login owns the tables
//! and migrates.

use sederunt_core::Error;
use tokio_postgres::Client;

use super::connect::{Address, DbRole, schemas};
use super::fault::Result;
use super::migrate::may_take;

/// What the login in an address may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoginRights {
    pub name: String,
    pub is_superuser: bool,
    pub bypasses_row_security: bool,
    /// Owns the schema or a table in it, or may become the owner.
    pub is_owner: bool,
    /// Has rights of the installation's roles without taking them.
    pub inherits: bool,
    /// May create roles, and on servers before version 16 give itself any of them.
    pub makes_roles: bool,
    /// May take the role of copies, which adds to what people recorded long ago.
    pub copies: bool,
    /// Roles of the installation that it needs to serve, and may not take.
    pub roles_untaken: Vec<String>,
}

impl LoginRights {
    /// What it could do to the separation of tenants after `RESET ROLE`; nothing, for a login that only serves.
    pub fn excess(&self) -> Vec<&'static str> {
        [
            (self.is_superuser, "is a superuser"),
            (self.bypasses_row_security && !self.is_superuser, "may bypass row-level security"),
            (self.is_owner && !self.is_superuser, "owns the tables"),
            (self.inherits && !self.is_superuser, "inherits the rights of the roles"),
            (self.makes_roles && !self.is_superuser, "may make roles"),
            (self.copies && !self.is_superuser, "may take the role of copies"),
        ]
        .into_iter()
        .filter_map(|(is_so, says)| is_so.then_some(says))
        .collect()
    }
}

/// Reads the rights of the login of a connection, whatever role it has taken.
pub(super) async fn rights(client: &Client, schema: &str) -> Result<LoginRights> {
    let sql = format!(
        "SELECT r.rolname::text, r.rolsuper, r.rolbypassrls, r.rolcreaterole,
             EXISTS (SELECT 1 FROM pg_namespace s LEFT JOIN pg_class c ON c.relnamespace = s.oid
                 WHERE s.nspname = ANY ($1) AND (pg_has_role(session_user, s.nspowner, 'MEMBER')
                     OR pg_has_role(session_user, c.relowner, 'MEMBER'))),
             EXISTS (SELECT 1 FROM pg_roles o
                 WHERE o.rolname = ANY ($2) AND pg_has_role(session_user, o.oid, 'USAGE')),
             ARRAY(SELECT o.rolname::text FROM pg_roles o WHERE o.rolname = ANY ($3) AND NOT {may_take} ORDER BY 1),
             EXISTS (SELECT 1 FROM pg_roles o WHERE o.rolname = $4 AND {may_take})
         FROM pg_roles r WHERE r.rolname = session_user",
        may_take = may_take("o.oid")
    );
    let (schemas, all) = (schemas(schema), DbRole::names(schema));
    let (serving, copying) = (DbRole::serving_names(schema), DbRole::Copying.name(schema));
    let row = client
        .query_one(&sql, &[&schemas.as_slice(), &all.as_slice(), &serving.as_slice(), &copying])
        .await?;
    Ok(LoginRights {
        name: row.try_get(0)?,
        is_superuser: row.try_get(1)?,
        bypasses_row_security: row.try_get(2)?,
        makes_roles: row.try_get(3)?,
        is_owner: row.try_get(4)?,
        inherits: row.try_get(5)?,
        roles_untaken: row.try_get(6)?,
        copies: row.try_get(7)?,
    })
}

/// Refuses a login that may not take the roles, and warns of one that could lift row-level security.
pub(super) async fn check(address: &Address) -> Result<()> {
    let (client, _said) = address.connect().await?;
    let login = rights(&client, &address.schema).await?;
    if !login.roles_untaken.is_empty() {
        let roles = login.roles_untaken.join(", ");
        return Err(Error::denied(format!(
            "the login `{name}` may not take the roles {roles}: run `GRANT {roles} TO {name}` as the login that owns \
             the tables",
            name = login.name
        ))
        .into());
    }
    let excess = login.excess();
    if !excess.is_empty() {
        tracing::warn!(
            login = login.name,
            excess = excess.join(", "),
            "one login both owns the store and serves: an attacker who gets a statement into it could lift row-level security \
             and read every tenant; OPERATING.md says how to serve with a login of its own"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_login_may_do_beyond_serving_is_named() {
        assert!(LoginRights::default().excess().is_empty());
        for (login, says) in [
            (LoginRights { is_superuser: true, is_owner: true, ..LoginRights::default() }, "is a superuser"),
            (
                LoginRights { bypasses_row_security: true, ..LoginRights::default() },
                "may bypass row-level security",
            ),
            (LoginRights { is_owner: true, ..LoginRights::default() }, "owns the tables"),
            (LoginRights { inherits: true, ..LoginRights::default() }, "inherits the rights of the roles"),
            (LoginRights { makes_roles: true, ..LoginRights::default() }, "may make roles"),
            (LoginRights { copies: true, ..LoginRights::default() }, "may take the role of copies"),
        ] {
            assert_eq!(login.excess(), [says]);
        }
    }
}
