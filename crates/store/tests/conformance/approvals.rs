//! Approvals: closed once, and read back even when they are old or broken.

use sederunt_core::Timestamp;
use sederunt_core::approval::{
    Approval, ApprovalBody, ApprovalKind, ApprovalQuery, ApprovalState, AssigneeFilter, PromotionTarget,
    digest,
};
use sederunt_core::definitions::task::OnExpiry;
use sederunt_core::session::Status;
use sederunt_core::store::{Change, CommitResult, Guard, Record, Refusal, Update, Write};

use crate::builders::*;
use crate::people::a_user;
use crate::stores::TestStore;

on_each_store! {
    an_approval_reads_back_as_it_was_given,
    an_approval_needs_its_session_or_one_of_the_same_change,
    an_approval_is_closed_once,
    a_taken_id_is_refused,
    of_many_who_decide_one_wins,
    a_refused_approval_leaves_the_session_unwritten_and_the_other_way_round,
    approvals_are_listed_newest_first_and_page_by_page,
    lists_show_what_every_filter_lets_through,
    a_deleted_session_takes_its_approvals_with_it,
    a_promotion_is_due_once_its_time_has_passed_and_until_it_is_decided,
    the_promotions_of_all_tenants_are_due_and_no_more_than_were_asked_for,
    approvals_of_one_tenant_are_nothing_in_another,
    a_merged_user_hands_over_what_it_is_to_decide;
    durable: rows_that_cannot_be_read_stay_visible,
    approvals_are_there_after_reopening,
    a_copy_carries_approvals_and_goes_on_after_them,
}

pub fn an_approval(name: &str, session: &str) -> Approval {
    Approval {
        id: name.into(),
        kind: ApprovalKind::Tool,
        session: id(session),
        task_id: None,
        state: ApprovalState::Pending,
        assigned_to: None,
        expires_at: None,
        created_at: Timestamp::default(),
        decided_by: None,
        decided_at: None,
        body: ApprovalBody {
            staged: Some(json(r#"{"id":"c","name":"send","args":{}}"#)),
            ..ApprovalBody::default()
        },
    }
}

fn a_target() -> PromotionTarget {
    PromotionTarget {
        entity_id: "acme".into(),
        entity_type: "company".into(),
        is_new: false,
        version: 7,
        base: json(r#"{"size":1.50,"é":null}"#),
        criteria: Vec::new(),
        questions: Vec::new(),
        document: None,
        unwritten: json(r#"{"note":"<b>"}"#),
    }
}

/// A promotion that expires after a day.
pub async fn a_promotion(store: &TestStore, name: &str, session: &str) -> Approval {
    let mut approval = an_approval(name, session);
    approval.kind = ApprovalKind::Promotion;
    approval.expires_at = Some(store.now().await.unwrap().plus(DAY));
    approval.body.promotion = Some(a_target());
    approval
}

fn closing(name: &str, state: ApprovalState) -> Record {
    let body = ApprovalBody { reason: Some("because".into()), ..an_approval(name, "s").body };
    Record::CloseApproval {
        id: name.into(),
        state,
        decided_by: Some("ann".into()),
        body: Some(Box::new(body)),
    }
}

fn all() -> ApprovalQuery {
    ApprovalQuery { limit: 100, ..ApprovalQuery::default() }
}

impl TestStore {
    async fn try_ask(&self, approval: Approval) -> Result<CommitResult, Refusal> {
        self.try_record(Record::AddApproval(Box::new(approval))).await
    }

    async fn ask(&self, approval: Approval) -> Timestamp {
        self.try_ask(approval).await.unwrap().at
    }

    async fn asked(&self, name: &str) -> Option<Approval> {
        self.approval(&self.tenant, name).await.unwrap()
    }

    async fn listed_approvals(&self, query: ApprovalQuery) -> Vec<String> {
        let page = self.approvals(&self.tenant, query).await.unwrap();
        page.items.into_iter().map(|approval| approval.id.into()).collect()
    }
}

async fn an_approval_reads_back_as_it_was_given(store: &TestStore) {
    store.open("s").await;
    let staged = json(r#"{"b":1.50,"a":[1e2,18446744073709551615],"é'\"%_":"😀\n\\"}"#);
    let now = store.now().await.unwrap();
    let full = Approval {
        kind: ApprovalKind::Promotion,
        task_id: Some("täglich".into()),
        assigned_to: Some(user("ann")),
        expires_at: Some(now.plus(DAY)),
        body: ApprovalBody {
            digest: digest(ApprovalKind::Promotion, &id("s"), &staged),
            staged: Some(staged),
            score: Some(0.125),
            flags: vec!["tone:curt".into(), "needs a 'lawyer'".into()],
            on_expiry: OnExpiry::Deny,
            edited: Some(json("[1.0]")),
            reason: Some("why\nnot".into()),
            input_schema: Some(json(r#"{"type":"object"}"#)),
            tool_description: Some("Sends a 'letter'.".into()),
            promotion: Some(a_target()),
            elicitation: Some(sederunt_core::approval::ElicitationForm::Parked),
        },
        ..an_approval("Ü", "s")
    };
    let kinds = [ApprovalKind::Tool, ApprovalKind::Output, ApprovalKind::Question];
    let others = kinds.map(|kind| Approval { kind, ..an_approval(kind.as_str(), "s") });
    let mut given = Vec::new();
    for approval in others.into_iter().chain([full]) {
        let created_at = store.ask(approval.clone()).await;
        given.insert(0, Approval { created_at, ..approval });
    }
    for approval in &given {
        let read = store.asked(&approval.id).await.unwrap();
        assert_eq!(read, *approval);
        let staged = read.body.staged.unwrap();
        assert_eq!(staged.as_str(), approval.body.staged.as_ref().unwrap().as_str(), "to the byte");
    }
    assert_eq!(store.approvals(&store.tenant, all()).await.unwrap().items, given);
    for unknown in ["ü", "", "other"] {
        assert_eq!(store.asked(unknown).await, None, "{unknown}");
    }
}

async fn an_approval_needs_its_session_or_one_of_the_same_change(store: &TestStore) {
    assert_eq!(verdict(&store.try_ask(an_approval("a", "none")).await), "not_found");
    assert_eq!(store.asked("a").await, None);
    let change = store
        .change(creating(a_session("s", |_| {})))
        .record(Record::AddApproval(Box::new(an_approval("a", "s"))));
    let at = store.commit(change).await.unwrap().at;
    let made = Approval { created_at: at, ..an_approval("a", "s") };
    assert_eq!(store.asked("a").await, Some(made));
}

async fn an_approval_is_closed_once(store: &TestStore) {
    store.open("s").await;
    for (name, state) in [
        ("a", ApprovalState::Approved),
        ("b", ApprovalState::Denied),
        ("c", ApprovalState::Expired),
        ("d", ApprovalState::Cancelled),
    ] {
        let created_at = store.ask(an_approval(name, "s")).await;
        store.clock.advance(LEASE);
        let closed = store.try_record(closing(name, state)).await.unwrap().at;
        assert!(closed > created_at);
        let Record::CloseApproval { body, .. } = closing(name, state) else { panic!() };
        let expected = Approval {
            state,
            created_at,
            decided_by: Some("ann".into()),
            decided_at: Some(closed),
            body: *body.unwrap(),
            ..an_approval(name, "s")
        };
        assert_eq!(store.asked(name).await, Some(expected.clone()));
        for again in ApprovalState::ALL {
            assert_eq!(verdict(&store.try_record(closing(name, again)).await), "stale", "{again:?}");
        }
        assert_eq!(store.asked(name).await, Some(expected));
    }
    assert_eq!(verdict(&store.try_record(closing("none", ApprovalState::Denied)).await), "stale");
    let asked_and_closed = Change::new(store.tenant.clone())
        .record(Record::AddApproval(Box::new(an_approval("e", "s"))))
        .record(closing("e", ApprovalState::Cancelled));
    store.commit(asked_and_closed).await.unwrap();
    assert_eq!(store.asked("e").await.unwrap().state, ApprovalState::Cancelled);
    let nobody = Record::CloseApproval {
        id: "f".into(),
        state: ApprovalState::Expired,
        decided_by: None,
        body: Some(Box::new(an_approval("f", "s").body)),
    };
    store.ask(an_approval("f", "s")).await;
    store.record(nobody).await;
    assert_eq!(store.asked("f").await.unwrap().decided_by, None);
}

async fn a_taken_id_is_refused(store: &TestStore) {
    store.open("s").await;
    store.open("t").await;
    store.ask(an_approval("a", "s")).await;
    assert_eq!(verdict(&store.try_ask(an_approval("a", "t")).await), "already_exists");
    let twice = ["b", "b"].into_iter().fold(Change::new(store.tenant.clone()), |change, name| {
        change.record(Record::AddApproval(Box::new(an_approval(name, "s"))))
    });
    assert_eq!(verdict(&store.commit(twice).await), "already_exists");
    assert_eq!(store.listed_approvals(all()).await, ["a"]);
}

async fn of_many_who_decide_one_wins(store: &TestStore) {
    store.open("s").await;
    for round in 0..4 {
        let name = format!("a{round}");
        store.ask(an_approval(&name, "s")).await;
        let answers = store
            .at_once(8, |store, n| {
                let name = name.clone();
                async move {
                    let state = if n % 2 == 0 { ApprovalState::Approved } else { ApprovalState::Denied };
                    let event = store.change(appending("s", vec![message(&n.to_string())]));
                    (state, store.commit(event.record(closing(&name, state))).await)
                }
            })
            .await;
        assert!(answers.iter().all(|(_, answer)| ["ok", "stale"].contains(&verdict(answer))), "{answers:?}");
        let won: Vec<_> =
            answers.iter().filter(|(_, answer)| answer.is_ok()).map(|(state, _)| *state).collect();
        assert_eq!(won, [store.asked(&name).await.unwrap().state]);
        assert_eq!(store.log("s").await.len(), round + 1, "who lost said nothing either");
    }
}

async fn a_refused_approval_leaves_the_session_unwritten_and_the_other_way_round(store: &TestStore) {
    store.open("s").await;
    store.ask(an_approval("a", "s")).await;
    store.record(closing("a", ApprovalState::Denied)).await;
    let before = store.state("s").await;
    let wait = || Update { status: Some(Status::WaitingHuman), run: Some(json("{}")), ..Update::default() };
    for record in
        [closing("a", ApprovalState::Approved), Record::AddApproval(Box::new(an_approval("b", "none")))]
    {
        let other = Record::AddApproval(Box::new(an_approval("c", "s")));
        let change = store.change(updating("s", wait())).record(other).record(record);
        assert_ne!(verdict(&store.commit(change).await), "ok");
        assert_eq!(store.state("s").await, before);
        assert_eq!(store.listed_approvals(all()).await, ["a"]);
    }
    let stale = Guard { version: Some(99), ..Guard::default() };
    let part = on("s", stale, Write::Update(Box::new(wait())));
    let change = store.change(part).record(Record::AddApproval(Box::new(an_approval("c", "s"))));
    assert_eq!(verdict(&store.commit(change).await), "stale");
    assert_eq!(store.asked("c").await, None);
}

async fn approvals_are_listed_newest_first_and_page_by_page(store: &TestStore) {
    store.open("s").await;
    let mut expected = Vec::new();
    for n in 0..7 {
        let name = format!("a{n}");
        let assigned_to = (n % 2 == 0).then(|| user("ann"));
        store.ask(Approval { task_id: Some("t".into()), assigned_to, ..an_approval(&name, "s") }).await;
        expected.insert(0, name);
    }
    store.record(closing("a3", ApprovalState::Approved)).await;
    store.record(closing("a5", ApprovalState::Denied)).await;
    let either = Some(AssigneeFilter::ToOrNobody(user("ann")));
    for query in [
        all(),
        ApprovalQuery { session: Some(id("s")), ..all() },
        ApprovalQuery { task_id: Some("t".into()), ..all() },
        ApprovalQuery { assigned_to: either.clone(), ..all() },
        ApprovalQuery { session: Some(id("s")), task_id: Some("t".into()), assigned_to: either, ..all() },
    ] {
        for limit in [1, 3, 6, 7, 8] {
            let (mut seen, mut after): (Vec<String>, _) = (Vec::new(), None);
            loop {
                let asked = ApprovalQuery { after, limit, ..query.clone() };
                let ids = store.approval_ids(&store.tenant, asked.clone()).await.unwrap();
                let page = store.approvals(&store.tenant, asked).await.unwrap();
                assert!(page.items.len() <= limit);
                assert!(ids.iter().eq(page.items.iter().map(|approval| &approval.id)), "{ids:?}");
                seen.extend(page.items.iter().map(|approval| approval.id.to_string()));
                after = page.next;
                if after.is_none() {
                    break;
                }
                assert_eq!(page.items.len(), limit, "more is promised only behind a full page");
            }
            assert_eq!(seen, expected, "{query:?} {limit}");
        }
    }
}

async fn lists_show_what_every_filter_lets_through(store: &TestStore) {
    for session in ["s", "t"] {
        store.open(session).await;
    }
    let of = |name: &str, session: &str, task: Option<&str>, to: Option<&str>| Approval {
        task_id: task.map(Into::into),
        assigned_to: to.map(user),
        ..an_approval(name, session)
    };
    store.ask(of("a", "s", Some("x"), Some("ann"))).await;
    store.ask(of("b", "s", Some("y"), None)).await;
    store.ask(of("c", "t", Some("x"), Some("bob"))).await;
    store.ask(of("d", "t", None, Some("ann"))).await;
    store.ask(of("e", "t", Some("x"), Some("ann"))).await;
    store.record(closing("e", ApprovalState::Approved)).await;

    let to = |name: &str| Some(AssigneeFilter::To(user(name)));
    let or_nobody = |name: &str| Some(AssigneeFilter::ToOrNobody(user(name)));
    let pending = ApprovalQuery { state: Some(ApprovalState::Pending), ..all() };
    let of_x = ApprovalQuery { task_id: Some("x".into()), ..all() };
    let of_t = ApprovalQuery { session: Some(id("t")), ..all() };
    for (query, ids) in [
        (all(), &["e", "d", "c", "b", "a"][..]),
        (pending.clone(), &["d", "c", "b", "a"]),
        (ApprovalQuery { state: Some(ApprovalState::Approved), ..all() }, &["e"]),
        (ApprovalQuery { state: Some(ApprovalState::Denied), ..all() }, &[]),
        (of_t.clone(), &["e", "d", "c"]),
        (ApprovalQuery { session: Some(id("none")), ..all() }, &[]),
        (ApprovalQuery { state: Some(ApprovalState::Pending), ..of_t.clone() }, &["d", "c"]),
        (of_x.clone(), &["e", "c", "a"]),
        (ApprovalQuery { state: Some(ApprovalState::Pending), ..of_x.clone() }, &["c", "a"]),
        (ApprovalQuery { session: Some(id("t")), ..of_x.clone() }, &["e", "c"]),
        (ApprovalQuery { assigned_to: to("ann"), ..all() }, &["e", "d", "a"]),
        (ApprovalQuery { assigned_to: to("ann"), ..pending.clone() }, &["d", "a"]),
        (ApprovalQuery { assigned_to: or_nobody("ann"), ..pending.clone() }, &["d", "b", "a"]),
        (ApprovalQuery { assigned_to: or_nobody("eve"), ..all() }, &["b"]),
        (ApprovalQuery { assigned_to: to("eve"), ..all() }, &[]),
        (ApprovalQuery { assigned_to: to("ann"), ..of_x.clone() }, &["e", "a"]),
        (ApprovalQuery { assigned_to: or_nobody("bob"), ..of_x }, &["c"]),
        (
            ApprovalQuery { assigned_to: or_nobody("bob"), state: Some(ApprovalState::Pending), ..of_t },
            &["c"],
        ),
    ] {
        assert_eq!(store.listed_approvals(query.clone()).await, ids, "{query:?}");
    }
}

async fn a_deleted_session_takes_its_approvals_with_it(store: &TestStore) {
    store.open("s").await;
    store.open("t").await;
    store.ask(an_approval("a", "s")).await;
    store.ask(an_approval("b", "t")).await;
    store.delete("s").await;
    assert_eq!(store.asked("a").await, None);
    assert_eq!(store.listed_approvals(all()).await, ["b"]);
    store.open("s").await;
    assert!(store.listed_approvals(ApprovalQuery { session: Some(id("s")), ..all() }).await.is_empty());
    assert_eq!(verdict(&store.try_record(closing("a", ApprovalState::Denied)).await), "stale");
    store.ask(an_approval("a", "s")).await;
}

async fn due_promotions(store: &TestStore) -> Vec<String> {
    let due = store.due_promotions(100).await.unwrap();
    due.into_iter().filter(|due| due.tenant == store.tenant).map(|due| due.approval.into()).collect()
}

async fn a_promotion_is_due_once_its_time_has_passed_and_until_it_is_decided(store: &TestStore) {
    for session in ["s", "t"] {
        store.create(a_session(session, |new| new.head.status = Status::Completed)).await;
    }
    store.ask(a_promotion(store, "first", "s").await).await;
    let other_kind = Approval { kind: ApprovalKind::Output, ..a_promotion(store, "output", "s").await };
    store.ask(other_kind).await;
    store.ask(Approval { expires_at: None, ..a_promotion(store, "endless", "s").await }).await;
    store.clock.advance(LEASE);
    store.ask(a_promotion(store, "second", "s").await).await;
    store.ask(a_promotion(store, "gone", "t").await).await;
    assert_eq!(due_promotions(store).await, [""; 0]);
    store.clock.advance(DAY - LEASE);
    assert_eq!(due_promotions(store).await, ["first"]);
    store.clock.advance(LEASE);
    store.delete("t").await;
    assert_eq!(due_promotions(store).await, ["first", "second"], "the longest overdue first");
    store.record(closing("first", ApprovalState::Expired)).await;
    store.record(closing("second", ApprovalState::Approved)).await;
    assert_eq!(due_promotions(store).await, [""; 0]);
}

async fn the_promotions_of_all_tenants_are_due_and_no_more_than_were_asked_for(store: &TestStore) {
    let other = store.tenant_named("other").await;
    for tenant in [store, &other] {
        tenant.open("s").await;
        for name in ["a", "b"] {
            tenant.ask(a_promotion(tenant, name, "s").await).await;
        }
    }
    store.clock.advance(DAY);
    for (limit, expected) in [(1, 1), (3, 3), (9, 4)] {
        assert_eq!(store.due_promotions(limit).await.unwrap().len(), expected);
    }
    assert_eq!(due_promotions(store).await.len(), 2);
    assert_eq!(due_promotions(&other).await.len(), 2);
}

async fn approvals_of_one_tenant_are_nothing_in_another(store: &TestStore) {
    let other = store.tenant_named("other").await;
    for tenant in [store, &other] {
        tenant.open("s").await;
        tenant.ask(Approval { assigned_to: Some(user("ann")), ..an_approval("a", "s") }).await;
    }
    other.open("there").await;
    other.ask(an_approval("there", "there")).await;
    other.record(closing("a", ApprovalState::Denied)).await;
    assert_eq!(store.asked("a").await.unwrap().state, ApprovalState::Pending);
    assert_eq!(store.asked("there").await, None);
    assert_eq!(verdict(&store.try_ask(an_approval("b", "there")).await), "not_found");
    assert_eq!(verdict(&store.try_record(closing("there", ApprovalState::Denied)).await), "stale");
    for query in [
        all(),
        ApprovalQuery { session: Some(id("s")), ..all() },
        ApprovalQuery { assigned_to: Some(AssigneeFilter::ToOrNobody(user("ann"))), ..all() },
    ] {
        assert_eq!(store.listed_approvals(query).await, ["a"]);
    }
}

async fn a_merged_user_hands_over_what_it_is_to_decide(store: &TestStore) {
    store.open("s").await;
    for name in ["old", "new", "other"] {
        store.record(Record::AddUser(a_user(name))).await;
        store.ask(Approval { assigned_to: Some(user(name)), ..an_approval(name, "s") }).await;
    }
    store.record(closing("old", ApprovalState::Approved)).await;
    store.record(Record::MergeUser { from: user("old"), into: user("new") }).await;
    for (name, ids) in [("new", &["new", "old"][..]), ("old", &[]), ("other", &["other"])] {
        let query = ApprovalQuery { assigned_to: Some(AssigneeFilter::To(user(name))), ..all() };
        assert_eq!(store.listed_approvals(query).await, ids, "{name}");
    }
}

async fn rows_that_cannot_be_read_stay_visible(store: &TestStore) {
    store.open("s").await;
    for name in ["old", "unknown", "malformed", "empty", "sound"] {
        store.ask(Approval { kind: ApprovalKind::Output, ..an_approval(name, "s") }).await;
    }
    store.ask(Approval { kind: ApprovalKind::Promotion, ..an_approval("nowhere", "s") }).await;
    store
        .execute(
            "UPDATE approvals SET kind = NULL WHERE id = 'old'; \
             UPDATE approvals SET kind = 'oracle' WHERE id = 'unknown'; \
             UPDATE approvals SET body = '{\"staged\":' WHERE id = 'malformed'; \
             UPDATE approvals SET body = '{}' WHERE id = 'empty'",
        )
        .await;
    let expected = [
        ("nowhere", ApprovalKind::Broken),
        ("sound", ApprovalKind::Output),
        ("empty", ApprovalKind::Broken),
        ("malformed", ApprovalKind::Broken),
        ("unknown", ApprovalKind::Broken),
        ("old", ApprovalKind::Tool),
    ];
    let listed = store.approvals(&store.tenant, all()).await.unwrap().items;
    assert_eq!(listed.iter().map(|read| (&*read.id, read.kind)).collect::<Vec<_>>(), expected);
    for read in listed {
        assert_eq!((&read.session, read.state), (&id("s"), ApprovalState::Pending));
        assert_eq!(store.asked(&read.id.clone()).await, Some(read));
    }
    store.record(closing("malformed", ApprovalState::Cancelled)).await;
    assert_eq!(store.asked("malformed").await.unwrap().state, ApprovalState::Cancelled);
}

async fn approvals_are_there_after_reopening(store: &TestStore) {
    store.open("s").await;
    store.ask(an_approval("a", "s")).await;
    store.ask(an_approval("b", "s")).await;
    store.record(closing("b", ApprovalState::Approved)).await;
    let before = store.approvals(&store.tenant, all()).await.unwrap().items;
    let again = store.reopened().await;
    assert_eq!(again.approvals(&again.tenant, all()).await.unwrap().items, before);
    again.close().await;
}

async fn a_copy_carries_approvals_and_goes_on_after_them(store: &TestStore) {
    store.create(a_session("s", |new| new.details.run = Some(json(r#"{"task_slug":"weekly"}"#)))).await;
    store.open("gone").await;
    let assigned_to = Some(user("ann"));
    store.ask(Approval { task_id: Some("x".into()), assigned_to, ..an_approval("a", "s") }).await;
    store.ask(an_approval("b", "s")).await;
    store.ask(an_approval("gone", "gone")).await;
    store.record(closing("b", ApprovalState::Denied)).await;
    store.delete("gone").await;
    let Some(copy) = store.copied().await else { return };
    let listed = store.approvals(&store.tenant, all()).await.unwrap();
    assert_eq!(listed.items.len(), 2);
    assert_eq!(copy.approvals(&copy.tenant, all()).await.unwrap().items, listed.items);
    assert_eq!(copy.get("s").await.details, store.get("s").await.details);
    copy.ask(an_approval("c", "s")).await;
    assert_eq!(copy.listed_approvals(all()).await, ["c", "b", "a"]);
    copy.remove().await;
}
