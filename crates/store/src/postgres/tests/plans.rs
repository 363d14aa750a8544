//! What commands cost on a database that was not analysed yet: they read as many rows as they touch, not as many as
//! the tenant has. Search is left out: whether to walk words or time depends on how common the words are, and the
//! planner is left that choice.

use std::collections::BTreeMap;

use sederunt_core::UserId;
use sederunt_core::approval::{ApprovalQuery, ApprovalState, AssigneeFilter};
use sederunt_core::definitions::{DefinitionKind, DocQuery};
use sederunt_core::session::query::{SessionQuery, TypeFilter, Visibility};
use sederunt_core::store::{MemoryQuery, Update};
use sederunt_core::work::ClaimOrder;

use super::*;
use crate::postgres::claim::lock_sql;
use crate::postgres::tx::Scope;

const SESSIONS: usize = 600;
const ROUNDS: usize = 20;
/// A round whose result is not checked, because there are few rows yet.
const PLANNING: usize = SESSIONS;
/// Rows that creating a session may read, 4.6 on average when this was written, and rows of a round, 134: a page of
/// every state, two claims, a deletion. Reading the tenant in every round would be 600 more for each, and reading the
/// queue in every claim 280.
const ROWS_PER_SESSION_MAX: usize = 6;
const ROWS_PER_ROUND_MAX: usize = 200;
/// In all: the sessions, the rounds with one of planning, and the tenant once more to analyse it. What the migrations
/// read is left out.
const ROWS_MAX: usize = SESSIONS * ROWS_PER_SESSION_MAX + (ROUNDS + 1) * ROWS_PER_ROUND_MAX + SESSIONS;

/// Rows that statements have read so far in this schema: by sequential scans, and by an index.
type Looked = BTreeMap<String, (i64, i64)>;

async fn looked_at(client: &Client, schema: &str) -> Looked {
    let sql = "SELECT relname::text, coalesce(seq_tup_read, 0), coalesce(idx_tup_fetch, 0)
         FROM pg_stat_user_tables WHERE schemaname = ANY ($1)";
    let rows = client.query(sql, &[&schemas(schema).as_slice()]).await.unwrap();
    rows.iter().map(|row| (row.get(0), (row.get(1), row.get(2)))).collect()
}

/// The numbers, once every connection of the store is gone: that is when the last of them has reported what it did.
async fn settled(client: &Client, schema: &str) -> Looked {
    let left = format!("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sederunt {schema}'");
    until("the end of the connections", async || count(client, &left).await == 0).await;
    looked_at(client, schema).await
}

/// When the tables were analysed last.
#[derive(Clone, Copy, Debug)]
enum Stock {
    Never,
    /// When there were this many sessions.
    Of(usize),
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_command_looks_through_a_whole_tenant() {
    for stock in [Stock::Never, Stock::Of(12), Stock::Of(300)] {
        with_store(async |scene| {
            scene.tenant_named("ours").await;
            let admin = scene.admin().await;
            // Without the tasks in the background, whose work would be counted too.
            scene.store.closing.send_replace(true);
            let before = looked_at_now(scene, &admin).await;
            for n in 0..SESSIONS {
                let mut new = session(&format!("s{n}"));
                new.head.status = if n % 2 == 0 { Status::Pending } else { Status::Idle };
                new.head.session_type = SessionType::Agent;
                let part = ChangePart {
                    on: PartTarget::New(Box::new(new)),
                    guard: Guard::default(),
                    writes: smallvec![],
                };
                scene.commit(Change::new(tenant("ours")).part(part).keyed(Some(a_key(n)))).await.unwrap();
                if matches!(stock, Stock::Of(count) if count == n + 1) {
                    scene.index_now().await.unwrap();
                    take_stock(&admin, &scene.schema).await;
                    // Statements that are planned again are planned now, and keep that plan.
                    every_command(scene, PLANNING).await;
                }
            }
            scene.index_now().await.unwrap();
            for n in 0..ROUNDS {
                every_command(scene, n).await;
            }
            scene.close().await;
            let looked = settled(&admin, &scene.schema).await;
            let rows: i64 =
                looked.values().map(|(through, by_index)| through + by_index).sum::<i64>() - before;
            assert!(rows > SESSIONS as i64, "nothing was counted");
            assert!(rows <= ROWS_MAX as i64, "{stock:?}: {rows} rows were looked at: {looked:?}");
        })
        .await;
    }
}

#[tokio::test]
async fn no_table_is_taken_stock_of_while_it_is_next_to_empty() {
    with_store(async |scene| {
        let admin = scene.admin().await;
        let sql = "SELECT c.relname::text FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
             WHERE c.relkind = 'r' AND s.nspname = ANY ($1)
                 AND NOT coalesce(c.reloptions @> ARRAY['autovacuum_vacuum_threshold=2000',
                     'autovacuum_analyze_threshold=2000'], false)";
        let rows = admin.query(sql, &[&schemas(&scene.schema).as_slice()]).await.unwrap();
        let young: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        assert!(young.is_empty(), "a new table says how much has to change first, as the others do: {young:?}");
        let sql = "SELECT max(n_dead_tup), max(n_mod_since_analyze) FROM pg_stat_user_tables WHERE schemaname = ANY ($1)";
        let row = admin.query_one(sql, &[&schemas(&scene.schema).as_slice()]).await.unwrap();
        let changed: [Option<i64>; 2] = [row.get(0), row.get(1)];
        assert!(changed.iter().flatten().all(|rows| *rows < 1500), "the examples alone are {changed:?}");
    })
    .await;
}

async fn take_stock(admin: &Client, schema: &str) {
    for table in looked_at(admin, schema).await.into_keys() {
        // Tables of the other schemas keep the statistics that they came with.
        let sql = format!("SELECT to_regclass('{schema}.{table}') IS NOT NULL");
        if admin.query_one(&sql, &[]).await.unwrap().get(0) {
            admin.batch_execute(&format!("VACUUM ANALYZE {schema}.{table}")).await.unwrap();
        }
    }
}

async fn every_command(scene: &Scene, n: usize) {
    let ours = &tenant("ours");
    let name = format!("s{}", n * 7 % SESSIONS);
    let on = |write: Write| ChangePart {
        on: PartTarget::Session(id(&name)),
        guard: Guard::default(),
        writes: smallvec![write],
    };
    let said = append("ours", &name, vec![message("hi")]).keyed(Some(a_key(10_000 + n)));
    scene.commit(said).await.unwrap();
    let update = Update { title: Some(Some("t".into())), ..Update::default() };
    let renamed =
        Change::new(ours.clone()).part(on(Write::Update(Box::new(update)))).keyed(Some(a_key(20_000 + n)));
    scene.commit(renamed).await.unwrap();
    scene.open("ours", &format!("new{n}")).await;
    assert!(scene.session(ours, &id(&name)).await.unwrap().is_some());
    assert!(!scene.log("ours", &name).await.is_empty());
    let order = ClaimOrder {
        tenant: ours.clone(),
        credential: CredentialId::stored("k"),
        worker: "w".into(),
        session_types: vec![SessionType::Agent],
        agent_slugs: Vec::new(),
        limit: 1,
        lease: Duration::from_secs(30),
        key: None,
    };
    let of_any_type = ClaimOrder { session_types: SessionType::ALL.to_vec(), ..order.clone() };
    for order in [order, of_any_type] {
        let claimed = scene.claim(order).await.unwrap().len();
        assert!(claimed == 1 || n == PLANNING);
    }
    let all = SessionQuery::of(TypeFilter::All, 10);
    let listed = scene.sessions(ours, all.clone()).await.unwrap().items.len();
    assert!(listed == 10 || n == PLANNING);
    let eve = SessionQuery { seen_by: Some(Visibility::Participant(UserId::stored("eve"))), ..all };
    assert!(scene.sessions(ours, eve).await.unwrap().items.is_empty());
    assert!(scene.due(Timestamp::from_micros(0), 10).await.unwrap().is_empty());
    let delete = ChangePart {
        on: PartTarget::Session(id(&format!("new{n}"))),
        guard: Guard::default(),
        writes: smallvec![Write::Delete],
    };
    scene.commit(Change::new(ours.clone()).part(delete)).await.unwrap();
}

const DOCS: usize = 600;
/// In all, generously: the creation, and ten rows and their facets in every round. Reading the tenant once in every
/// round would be 12,000 more.
const LIST_ROWS_MAX: i64 = 25_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_list_of_documents_or_approvals_looks_through_a_whole_tenant() {
    with_store(async |scene| {
        scene.tenant_named("ours").await;
        let admin = scene.admin().await;
        scene.store.closing.send_replace(true);
        let mut change = Change::new(tenant("ours"));
        for n in 0..DOCS {
            let (agent, maker, to) =
                (format!("agent-{}", n % 100), format!("m{}", n % 100), format!("u{}", n % 100));
            let facets = [
                ("status", "active"),
                ("agent_slug", &*agent),
                ("created_by", &maker),
                ("assigned_to", "one"),
            ];
            change = change.record(putting(&format!("d{n}"), &facets));
            if n % 6 == 0 {
                scene.open("ours", &format!("s{n}")).await;
            }
            let session = format!("s{}", n / 6 * 6);
            change = change.record(asking(&format!("a{n}"), &session, (n % 2 == 0).then_some(&*to)));
        }
        scene.commit(change).await.unwrap();
        let before = looked_at_now(scene, &admin).await;
        for n in 0..ROUNDS {
            every_list(scene, n).await;
        }
        scene.close().await;
        let after = settled(&admin, &scene.schema).await;
        let rows: i64 = after.values().map(|(through, by_index)| through + by_index).sum::<i64>() - before;
        assert!(rows > LIST_ROWS_MAX / 20, "nothing was counted");
        assert!(rows <= LIST_ROWS_MAX, "{rows} rows were looked at: {after:?}");
    })
    .await;
}

/// Rows read so far, as far as connections have reported them.
async fn looked_at_now(scene: &Scene, admin: &Client) -> i64 {
    let looked = looked_at(admin, &scene.schema).await;
    looked.values().map(|(through, by_index)| through + by_index).sum()
}

async fn every_list(scene: &Scene, n: usize) {
    let ours = &tenant("ours");
    let docs = |facets: &[(&'static str, String)], of_user: Option<&str>| DocQuery {
        kind: DefinitionKind::Task,
        facets: facets.to_vec(),
        text: None,
        of_user: of_user.map(UserId::stored),
        after: None,
        limit: 10,
    };
    let status = ("status", "active".to_owned());
    let agent = ("agent_slug", format!("agent-{n}"));
    let maker = format!("m{n}");
    for (query, found) in [
        (docs(&[], None), 10),
        (docs(std::slice::from_ref(&status), None), 10),
        (docs(std::slice::from_ref(&agent), None), 6),
        (docs(&[status.clone(), agent.clone()], None), 6),
        (docs(&[agent.clone(), status.clone()], None), 6),
        (docs(&[], Some(&maker)), 6),
        (docs(&[status, agent], Some(&maker)), 6),
        (docs(&[("agent_slug", "none".to_owned())], Some("one")), 0),
    ] {
        assert_eq!(scene.docs(ours, query.clone()).await.unwrap().items.len(), found, "{query:?}");
    }
    for name in [format!("d{n}"), format!("slug of d{n}")] {
        assert!(scene.doc(ours, DefinitionKind::Task, &name).await.unwrap().is_some());
    }
    let all = ApprovalQuery { limit: 10, ..ApprovalQuery::default() };
    let pending = ApprovalQuery { state: Some(ApprovalState::Pending), ..all.clone() };
    let (session, to) = (format!("s{}", n * 6), UserId::stored(format!("u{}", n * 2)));
    let (session, task_id) = (id(&session), Some(format!("task of {session}")));
    let (mine, open) = (Some(AssigneeFilter::To(to.clone())), Some(AssigneeFilter::ToOrNobody(to)));
    for (query, found) in [
        (all.clone(), 10),
        (pending.clone(), 10),
        (ApprovalQuery { session: Some(session.clone()), ..all.clone() }, 6),
        (ApprovalQuery { session: Some(session), ..pending.clone() }, 6),
        (ApprovalQuery { task_id: task_id.clone(), ..all.clone() }, 6),
        (ApprovalQuery { task_id: task_id.clone(), assigned_to: open.clone(), ..pending.clone() }, 3),
        (ApprovalQuery { assigned_to: mine.clone(), ..all.clone() }, 6),
        (ApprovalQuery { assigned_to: mine, ..pending.clone() }, 6),
        (ApprovalQuery { assigned_to: open, ..pending.clone() }, 10),
        (ApprovalQuery { state: Some(ApprovalState::Denied), ..all }, 0),
        (ApprovalQuery { task_id: Some("none".into()), ..pending }, 0),
    ] {
        let items = scene.approvals(ours, query.clone()).await.unwrap().items;
        assert!(items.len() >= found && items.len() <= found + 1, "{} for {query:?}", items.len());
    }
    assert!(scene.approval(ours, &format!("a{n}")).await.unwrap().is_some());
}

fn a_key(n: usize) -> IdemKey {
    let scope =
        uuid::Uuid::from_u128((n as u128 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835));
    IdemKey { scope: *scope.as_bytes(), body: [1; 16], note: None }
}

/// In all, generously. Reading the talks, the memories or their words once in every round would be 12,000 more each.
const TALK_ROWS_MAX: i64 = 10_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_turn_recall_or_sweep_looks_through_a_whole_tenant() {
    with_store(async |scene| {
        scene.tenant_named("ours").await;
        let admin = scene.admin().await;
        scene.store.closing.send_replace(true);
        let mut beside = Change::new(tenant("ours"));
        for n in 0..SESSIONS {
            let name = format!("s{n}");
            scene.open("ours", &name).await;
            let talk = ChangePart {
                on: PartTarget::Session(id(&name)),
                guard: Guard::default(),
                writes: smallvec![Write::Talk(Box::new(record_builders::seated()))],
            };
            beside = beside
                .part(talk)
                .record(Record::PutMemory(Box::new(record_builders::fact(&name, "ann", &name))))
                .record(Record::AddRating(Box::new(record_builders::rating(
                    n as u128, &name, "2026-01-01T00:00:00Z",
                ))))
                .record(Record::AddCrisis(Box::new(record_builders::crisis(
                    n as u128, &name, "2026-01-01T00:00:00Z",
                ))));
        }
        scene.commit(beside).await.unwrap();
        let before = looked_at_now(scene, &admin).await;
        for n in 0..ROUNDS {
            every_recall(scene, n).await;
        }
        scene.close().await;
        let after = settled(&admin, &scene.schema).await;
        let rows: i64 = after.values().map(|(through, by_index)| through + by_index).sum::<i64>() - before;
        assert!(rows > TALK_ROWS_MAX / 20, "nothing was counted");
        assert!(rows <= TALK_ROWS_MAX, "{rows} rows were looked at: {after:?}");
    })
    .await;
}

async fn every_recall(scene: &Scene, n: usize) {
    let (ours, name) = (&tenant("ours"), format!("s{}", n * 7 % SESSIONS));
    let (_, talk) = scene.talk(ours, &id(&name)).await.unwrap().unwrap();
    let part = ChangePart {
        on: PartTarget::Session(id(&name)),
        guard: Guard::default(),
        writes: smallvec![Write::Append(vec![message("hi")]), Write::Talk(Box::new(talk))],
    };
    let turn = Change::new(ours.clone())
        .part(part)
        .record(Record::PutMemory(Box::new(record_builders::fact(&name, "ann", &format!("{name} again")))))
        .record(Record::DropMemory { id: format!("s{}", 300 + n).into() });
    scene.commit(turn).await.unwrap();
    let query = MemoryQuery {
        owner: record_builders::owner("ann"),
        kind: None,
        words: Vec::new(),
        since: None,
        dormant: false,
        after: None,
        limit: 5,
    };
    assert_eq!(scene.memories(ours, query.clone()).await.unwrap().items.len(), 5);
    let found = scene.memories(ours, MemoryQuery { words: vec![name.clone()], ..query }).await.unwrap();
    assert_eq!(found.items.len(), 1);
    assert!(scene.memory(ours, &name).await.unwrap().is_some());
    assert_eq!(scene.ratings(ours, &name).await.unwrap().len(), 1);
    let (from, to) =
        (record_builders::at("2025-01-01T00:00:00Z"), record_builders::at("2027-01-01T00:00:00Z"));
    assert_eq!(scene.crises(ours, from, to, 5).await.unwrap().len(), 5);
    assert_eq!(scene.silent_sittings(to, 5).await.unwrap().len(), 5);
    assert!(scene.silent_sittings(from, 5).await.unwrap().is_empty());
    assert!(scene.waiting_turns(5).await.unwrap().is_empty());
}

#[tokio::test]
async fn what_is_handed_out_is_locked_by_its_key_when_next_to_nothing_waits() {
    with_store(async |scene| {
        let tk = scene.tenant_named("ours").await;
        scene.store.closing.send_replace(true);
        for n in 0..300 {
            let mut new = session(&format!("s{n}"));
            new.head.status = if n == 7 { Status::Pending } else { Status::Completed };
            new.details.agent_slug = Some("scribe".into());
            let part = ChangePart {
                on: PartTarget::New(Box::new(new)),
                guard: Guard::default(),
                writes: smallvec![],
            };
            scene.commit(Change::new(tenant("ours")).part(part)).await.unwrap();
        }
        take_stock(&scene.admin().await, &scene.schema).await;
        let plan = plan_of(scene, tk, &lock_sql(2, 2, false), &["agent", "mixed", "scribe", "clerk"]).await;
        let locking = plan.iter().position(|line| line.contains("LockRows")).unwrap();
        let way = plan[locking..].iter().find(|line| line.contains("Scan using")).unwrap();
        assert!(way.contains("session_heads_pkey"), "{plan:#?}");
        let walks = plan[..locking].iter().filter(|line| line.contains("heads_pending_agent")).count();
        assert_eq!(walks, 4, "each queue is walked in its order: {plan:#?}");
    })
    .await;
}

/// The plan of a statement that takes a tenant, a limit and these words.
async fn plan_of(scene: &Scene, tk: i32, sql: &str, words: &[&str]) -> Vec<String> {
    let tx = scene.store.context.begin(Scope::Tenant(tk)).await.unwrap();
    let types = ", text".repeat(words.len());
    let given = words.iter().map(|word| format!(", '{word}'")).collect::<String>();
    let asked = format!("PREPARE planned (integer, bigint{types}) AS {sql}");
    tx.client().unwrap().batch_execute(&asked).await.unwrap();
    let plan = format!("EXPLAIN EXECUTE planned ({tk}, 8{given})");
    let plan = tx.client().unwrap().simple_query(&plan).await.unwrap();
    tx.client().unwrap().batch_execute("DEALLOCATE planned").await.unwrap();
    tx.rollback().await;
    plan.iter()
        .filter_map(|said| match said {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        })
        .collect()
}

/// The tables were analysed when there were 300 sessions, and the indexes of the queues have grown since, each by its
/// own pages: the one that is not in the order of a queue then looks smaller than the one that is.
#[tokio::test]
async fn queues_are_walked_in_their_order_however_much_the_tenant_has_grown_since_stock_was_taken() {
    with_store(async |scene| {
        let tk = scene.tenant_named("ours").await;
        scene.store.closing.send_replace(true);
        for n in 0..2 * SESSIONS {
            let mut new = session(&format!("s{n}"));
            new.head.status = if n % 2 == 0 { Status::Pending } else { Status::Idle };
            new.head.session_type = SessionType::Agent;
            let part = ChangePart {
                on: PartTarget::New(Box::new(new)),
                guard: Guard::default(),
                writes: smallvec![],
            };
            scene.commit(Change::new(tenant("ours")).part(part)).await.unwrap();
            if n + 1 == SESSIONS / 2 {
                take_stock(&scene.admin().await, &scene.schema).await;
            }
            if n < SESSIONS / 2 || n % 20 > 0 {
                continue;
            }
            for types in 1..=SessionType::ALL.len() {
                let words: Vec<&str> = SessionType::ALL[..types].iter().map(|kind| kind.as_str()).collect();
                let plan = plan_of(scene, tk, &lock_sql(types, 0, false), &words).await;
                let walks = plan.iter().filter(|line| line.contains("using heads_pending on")).count();
                assert_eq!(walks, types, "at {n}: {plan:#?}");
                assert!(!plan.iter().any(|line| line.contains("->  Sort")), "at {n}: {plan:#?}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn how_common_a_value_was_says_how_to_look_and_not_what_is_found() {
    with_store(async |scene| {
        scene.tenant_named("ours").await;
        scene.open("ours", "s").await;
        let asked = || SessionQuery {
            metadata: vec![("a".into(), "1".into())],
            ..SessionQuery::of(TypeFilter::All, 10)
        };
        let names = async || {
            let page = scene.sessions(&tenant("ours"), asked()).await.unwrap();
            page.items.iter().map(|one| one.id.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names().await, ["s"]);
        scene.open("ours", "t").await;
        assert_eq!(names().await, ["t", "s"]);
        let at =
            (scene.store.context.tk(&tenant("ours")).await.unwrap().unwrap(), "a".to_owned(), "1".to_owned());
        assert_eq!(scene.store.context.metadata_counts.get(&at), Some(1), "as it was at first");
        for many in [5_000, 50_000] {
            scene.store.context.metadata_counts.insert(at.clone(), many);
            assert_eq!(names().await, ["t", "s"], "as if {many} had it");
        }
    })
    .await;
}
