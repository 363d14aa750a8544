//! Walls inside a tenant, as statements under the roles meet them: each list says who gets through and who does not.

use sederunt_core::UserId;
use tokio_postgres::error::SqlState;

use super::row_security::under;
use super::*;

impl Scene {
    /// A bridge of a person, in this status. Returns the number of its log.
    async fn bridge(&self, of: &str, name: &str, holder: Option<&str>, status: Status) -> i64 {
        let mut new = session(name);
        new.head = Head {
            is_bridge: true,
            ..Head::blank(
                Incarnation::drawn(&RandomIds),
                SessionType::Mixed,
                status,
                holder.map(UserId::stored),
            )
        };
        let part =
            ChangePart { on: PartTarget::New(Box::new(new)), guard: Guard::default(), writes: smallvec![] };
        self.commit(Change::new(tenant(of)).part(part)).await.unwrap();
        let log = format!("SELECT sk FROM sessions WHERE id = '{name}'");
        count(&self.admin().await, &log).await
    }
}

#[tokio::test]
async fn what_a_person_records_goes_into_their_own_running_bridge_alone() {
    with_store(async |scene| {
        let (ours, theirs) = (scene.tenant_named("ours").await, scene.tenant_named("theirs").await);
        scene.open("ours", "talk").await;
        let admin = scene.admin().await;
        let talk = count(&admin, "SELECT sk FROM sessions WHERE id = 'talk'").await;
        let ada = scene.bridge("ours", "ada", Some("ada"), Status::Running).await;
        let ended = scene.bridge("ours", "ended", Some("ada"), Status::Completed).await;
        let bea = scene.bridge("ours", "bea", Some("bea"), Status::Running).await;
        let nobodys = scene.bridge("ours", "nobodys", None, Status::Running).await;
        let foreign = scene.bridge("theirs", "foreign", Some("ada"), Status::Running).await;
        let insert = |tk: i32, log: i64, kind: &str| {
            format!("INSERT INTO events (tk, log, seq, type, at) VALUES ({tk}, {log}, 99, '{kind}', 0)")
        };
        let (app, tk) = (scene.role("app"), ours.to_string());
        let as_ada = [("app.tk", &*tk), ("app.user", "ada")];
        let (as_nobody, unset) = ([("app.tk", &*tk), ("app.user", "")], [("app.tk", &*tk)]);
        for (who, log) in [(&as_ada[..], ada), (&as_nobody, nobodys), (&unset, nobodys)] {
            assert_eq!(under(&admin, &app, who, &insert(ours, log, "human.marker")).await, Ok(1), "{who:?}");
        }
        let refused = Err(SqlState::INSUFFICIENT_PRIVILEGE);
        for (who, log) in [
            (&as_ada[..], ended),
            (&as_ada, bea),
            (&as_ada, nobodys),
            (&as_ada, talk),
            (&as_ada, foreign),
            (&as_nobody, ada),
            (&unset, ada),
            (&unset, talk),
        ] {
            let outcome = under(&admin, &app, who, &insert(ours, log, "human.navigate")).await;
            assert_eq!(outcome, refused, "{who:?} {log}");
        }
        let outcome = under(&admin, &app, &as_ada, &insert(theirs, foreign, "human.marker")).await;
        assert_eq!(outcome, refused, "another tenant's");
        // Other events are not asked, and none becomes one of these.
        admin.batch_execute(&insert(ours, talk, "a.b")).await.unwrap();
        assert_eq!(under(&admin, &app, &unset, &insert(ours, bea, "a.b")).await, Ok(1));
        let forged = format!("UPDATE events SET type = 'human.marker' WHERE log = {talk}");
        assert_eq!(under(&admin, &app, &as_ada, &forged).await, refused);
        let plain = format!("UPDATE events SET type = 'a.c' WHERE log = {talk}");
        assert_eq!(under(&admin, &app, &as_ada, &plain).await, Ok(1));
    })
    .await;
}

#[tokio::test]
async fn the_database_allows_one_running_bridge_of_a_person() {
    with_store(async |scene| {
        scene.tenant_named("ours").await;
        scene.tenant_named("theirs").await;
        let admin = scene.admin().await;
        for holder in [Some("ada"), None] {
            let name = holder.unwrap_or("nobody");
            scene.bridge("ours", name, holder, Status::Running).await;
            scene
                .bridge("theirs", &format!("{name}'s elsewhere").replace('\'', ""), holder, Status::Running)
                .await;
            let ended = format!("{name}-ended");
            scene.bridge("ours", &ended, holder, Status::Completed).await;
            let second = format!("UPDATE session_heads SET status = 'running' WHERE id = '{ended}'");
            let outcome = admin.execute(&second, &[]).await.map_err(|error| error.code().cloned());
            assert_eq!(outcome, Err(Some(SqlState::UNIQUE_VIOLATION)), "{holder:?}");
        }
    })
    .await;
}
