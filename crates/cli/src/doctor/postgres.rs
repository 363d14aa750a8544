//! Checks a store in PostgreSQL: the server, its clock, and whether tenants are isolated.

use std::time::Duration;

use sederunt_core::clock::{Clock, SystemClock};
use sederunt_store::postgres::inspect::{PostgresInspection, inspect};
use sederunt_store::postgres::login::LoginRights;

use super::{Finding, schema_finding};
use crate::exit::Failure;

/// The oldest server that has everything the store uses.
const VERSION_MIN: i32 = 130_000;
/// Leases use the database's clock; a machine this far off misreads them.
const CLOCK_WARN: Duration = Duration::from_secs(2);

pub async fn look(url: &str, schema: &str, known: u32) -> Vec<Finding> {
    match inspect(url, schema).await {
        Ok(found) => judge(&found, known),
        Err(error) => {
            let advice = "start the database, or name another one with --store";
            vec![Finding::fail("store", Failure::from(error).sentence(), advice)]
        }
    }
}

fn judge(found: &PostgresInspection, known: u32) -> Vec<Finding> {
    let mut findings = vec![Finding::ok("store", "reachable"), version(found), clock(found)];
    findings.push(schema_finding(found.schema_version, known));
    if found.schema_version > 0 {
        findings.push(roles(found));
        findings.push(login(&found.login));
        findings.push(row_security(found));
    }
    findings
}

fn version(found: &PostgresInspection) -> Finding {
    if found.server_version_num < VERSION_MIN {
        return Finding::fail("postgresql", &found.server_version, "use PostgreSQL 13 or newer");
    }
    Finding::ok("postgresql", &found.server_version)
}

fn clock(found: &PostgresInspection) -> Finding {
    let here = SystemClock::default().now();
    let apart = Duration::from_micros(here.as_micros().abs_diff(found.now.as_micros()));
    let says = format!("the database's is {} ms off ours", apart.as_millis());
    if apart > CLOCK_WARN {
        return Finding::warn("clock", says, "set both by a time server");
    }
    Finding::ok("clock", says)
}

fn roles(found: &PostgresInspection) -> Finding {
    if !found.roles_missing.is_empty() {
        let says = format!("missing: {}", found.roles_missing.join(", "));
        return Finding::fail("roles", says, "run `sederunt migrate` as a user that may make roles");
    }
    if !found.roles_unbound.is_empty() {
        let says = format!("see past row security: {}", found.roles_unbound.join(", "));
        return Finding::fail("roles", says, "ALTER ROLE … NOSUPERUSER NOBYPASSRLS");
    }
    Finding::ok("roles", "none of ours may see past row security")
}

fn login(login: &LoginRights) -> Finding {
    let name = &login.name;
    if !login.roles_untaken.is_empty() {
        let says = format!("`{name}` may not take {}", login.roles_untaken.join(", "));
        return Finding::fail("login", says, "GRANT those roles to it, as the login that owns the tables");
    }
    let excess = login.excess();
    if !excess.is_empty() {
        let says = format!("`{name}` {}: it could lift row security", excess.join(", "));
        let advice = "serve with a login of its own, as in OPERATING.md: NOINHERIT, and owner of nothing";
        return Finding::warn("login", says, advice);
    }
    Finding::ok("login", format!("`{name}` owns nothing and inherits nothing"))
}

fn row_security(found: &PostgresInspection) -> Finding {
    if !found.tables_unbound.is_empty() {
        let says = format!("not forced on: {}", found.tables_unbound.join(", "));
        return Finding::fail("row security", says, "ALTER TABLE … ENABLE, and FORCE, ROW LEVEL SECURITY");
    }
    Finding::ok("row security", format!("forced on {} tables", found.tables))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    fn sound() -> PostgresInspection {
        PostgresInspection {
            server_version: "15.18".into(),
            server_version_num: 150_018,
            schema_version: 1,
            now: SystemClock::default().now(),
            roles_missing: Vec::new(),
            roles_unbound: Vec::new(),
            login: serving(),
            tables: 16,
            tables_unbound: Vec::new(),
        }
    }

    fn serving() -> LoginRights {
        LoginRights { name: "sederunt_serve".into(), ..LoginRights::default() }
    }

    fn with_login(login: LoginRights) -> PostgresInspection {
        PostgresInspection { login, ..sound() }
    }

    fn worst(found: &PostgresInspection) -> Level {
        let levels = judge(found, 1).into_iter().map(|finding| finding.level);
        levels.max_by_key(|level| *level as u8).unwrap()
    }

    #[test]
    fn whatever_weakens_the_wall_between_tenants_is_a_failure() {
        assert_eq!(worst(&sound()), Level::Ok);
        let table = [
            (PostgresInspection { roles_unbound: vec!["sederunt_app".into()], ..sound() }, Level::Fail),
            (PostgresInspection { roles_missing: vec!["sederunt_app".into()], ..sound() }, Level::Fail),
            (
                with_login(LoginRights { roles_untaken: vec!["sederunt_app".into()], ..serving() }),
                Level::Fail,
            ),
            (with_login(LoginRights { is_superuser: true, ..serving() }), Level::Warn),
            (with_login(LoginRights { bypasses_row_security: true, ..serving() }), Level::Warn),
            (with_login(LoginRights { is_owner: true, ..serving() }), Level::Warn),
            (with_login(LoginRights { inherits: true, ..serving() }), Level::Warn),
            (PostgresInspection { tables_unbound: vec!["events".into()], ..sound() }, Level::Fail),
            (PostgresInspection { server_version_num: 120_000, ..sound() }, Level::Fail),
            (PostgresInspection { schema_version: 2, ..sound() }, Level::Fail),
            (PostgresInspection { schema_version: 0, ..sound() }, Level::Warn),
            (PostgresInspection { now: sederunt::Timestamp::from_micros(0), ..sound() }, Level::Warn),
        ];
        for (found, level) in table {
            assert_eq!(worst(&found), level, "{found:?}");
        }
    }
}
