//! Responses: one that stands for each respondent of a view, whoever comes first.

use sederunt_core::Timestamp;
use sederunt_core::access::ActingUser;
use sederunt_core::approval::{Approval, ApprovalKind, ApprovalState};
use sederunt_core::definitions::DefinitionKind;
use sederunt_core::people::{LinkReach, SecretHash};
use sederunt_core::response::{
    RespondentHistory, ResponseFilter, ResponseForm, ResponseQuery, ResponseRow, ResponseState,
    StoredResponse,
};
use sederunt_core::session::{SessionType, Status};
use sederunt_core::store::{Change, NewSession, Record, Update};
use sederunt_core::view::Respondent;

use crate::approvals::an_approval;
use crate::builders::*;
use crate::definitions::a_doc;
use crate::people::a_view_link;
use crate::stores::TestStore;

on_each_store! {
    a_response_reads_back_with_its_session_and_its_newest_promotion,
    the_rows_of_many_responses_are_read_at_once,
    a_link_to_a_view_has_the_responses_of_its_respondent,
    a_respondent_has_one_open_response_to_a_view,
    a_submitted_response_stands_where_each_respondent_submits_one,
    of_many_who_open_at_once_one_wins,
    a_save_says_when_and_empties_or_sets_the_draft,
    the_longest_silent_anonymous_drafts_are_found,
    responses_are_listed_newest_first_by_their_status_and_page_by_page,
    a_deleted_session_takes_its_response_with_it,
    responses_of_one_tenant_are_nothing_in_another;
    durable: responses_are_there_after_reopening,
    a_copy_carries_responses,
}

const FORM: &str = r#"{"title":"T","questions":[{"key":"a","label":"A"}],"response":{"fields":{"a":"x"}},
    "gate":"none","view_version":3,"entity_id":"e"}"#;

fn a_response(session: &str, view: &str, who: &str, ordinal: u64) -> ResponseRow {
    let form: ResponseForm = json(FORM).read().unwrap();
    ResponseRow {
        session: id(session),
        view_id: view.into(),
        respondent: Respondent::cookie(who.to_owned()),
        respondent_name: format!("view:{who}"),
        ordinal,
        is_anonymous: true,
        once: true,
        state: ResponseState::Open,
        saved_at: Timestamp::default(),
        form,
    }
}

fn a_draft(name: &str) -> NewSession {
    a_session(name, |new| {
        new.head.session_type = SessionType::Response;
        new.head.is_talk = false;
        new.head.status = Status::Draft;
        new.details.is_anonymous = true;
    })
}

fn opening(store: &TestStore, row: ResponseRow) -> Change {
    store.change(creating(a_draft(row.session.as_str()))).record(Record::AddResponse(Box::new(row)))
}

fn set(session: &str, state: ResponseState) -> Record {
    Record::SetResponse { session: id(session), state }
}

fn listing(filter: ResponseFilter) -> ResponseQuery {
    ResponseQuery { view_id: "v".into(), filter, after: None, limit: 100 }
}

impl TestStore {
    async fn opened(&self, row: ResponseRow) -> Timestamp {
        self.commit(opening(self, row)).await.unwrap().at
    }

    async fn found_response(&self, name: &str) -> Option<StoredResponse> {
        self.response(&self.tenant, &id(name)).await.unwrap()
    }

    async fn history(&self, who: &str) -> RespondentHistory {
        self.respondent_history(&self.tenant, "v", &format!("view:{who}")).await.unwrap()
    }

    async fn response_ids(&self, filter: ResponseFilter) -> Vec<String> {
        let page = self.responses(&self.tenant, listing(filter)).await.unwrap();
        page.items.into_iter().map(|response| response.row.session.to_string()).collect()
    }
}

fn a_promotion(name: &str, session: &str, state: ApprovalState) -> Record {
    let kind = ApprovalKind::Promotion;
    Record::AddApproval(Box::new(Approval { kind, state, ..an_approval(name, session) }))
}

async fn a_response_reads_back_with_its_session_and_its_newest_promotion(store: &TestStore) {
    let at = store.opened(a_response("s", "v", "c", 1)).await;
    let found = store.found_response("s").await.unwrap();
    assert_eq!(found.row, ResponseRow { saved_at: at, ..a_response("s", "v", "c", 1) });
    assert_eq!(found.session, store.get("s").await);
    assert_eq!(found.promotion, None);
    store.record(set("s", ResponseState::Submitted)).await;
    store.record(a_promotion("first", "s", ApprovalState::Denied)).await;
    store.record(a_promotion("second", "s", ApprovalState::Pending)).await;
    store.record(Record::AddApproval(Box::new(an_approval("tool", "s")))).await;
    let found = store.found_response("s").await.unwrap();
    assert_eq!(found.row.state, ResponseState::Submitted);
    assert_eq!(found.promotion.map(|newest| newest.id), Some("second".into()));
    store.create(a_draft("plain")).await;
    assert_eq!(store.found_response("plain").await, None, "a session without a form is no response");
    assert_eq!(store.found_response("none").await, None);
}

async fn a_link_to_a_view_has_the_responses_of_its_respondent(store: &TestStore) {
    let now = store.now().await.unwrap();
    for view in ["v", "w"] {
        store.put(a_doc(DefinitionKind::View, view)).await;
    }
    store.opened(a_response("mine", "v", "c", 1)).await;
    store.opened(a_response("of another", "v", "d", 1)).await;
    store.opened(a_response("elsewhere", "w", "c", 1)).await;
    store.opened(ResponseRow { is_anonymous: false, ..a_response("named", "v", "m", 1) }).await;
    let expired = a_view_link(store, "expired", "v", Timestamp::from_micros(1));
    for share in [a_view_link(store, "link", "v", now.plus(DAY)), expired] {
        let hash = SecretHash::of(&share.id);
        store.record(Record::AddShare { share, hash }).await;
    }
    let reach = async |store: &TestStore, token: &str, view: &str, who: &str, session: Option<&str>| {
        let (hash, who, session) = (SecretHash::of(token), format!("view:{who}"), session.map(id));
        store.link_reach(&store.tenant, hash, view, &who, session.as_ref()).await.unwrap()
    };
    for (token, view, who, session, expected) in [
        ("link", "v", "c", Some("mine"), LinkReach::Response),
        ("link", "v", "d", Some("of another"), LinkReach::Response),
        ("link", "v", "c", Some("of another"), LinkReach::View),
        ("link", "v", "c", Some("elsewhere"), LinkReach::View),
        ("link", "v", "m", Some("named"), LinkReach::View),
        ("link", "v", "c", Some("none"), LinkReach::View),
        ("link", "v", "c", None, LinkReach::View),
        ("link", "v", "nobody", None, LinkReach::View),
        ("link", "w", "c", Some("elsewhere"), LinkReach::Nothing),
        ("link", "w", "c", None, LinkReach::Nothing),
        ("expired", "v", "c", Some("mine"), LinkReach::Nothing),
        ("expired", "v", "c", None, LinkReach::Nothing),
        ("unknown", "v", "c", Some("mine"), LinkReach::Nothing),
    ] {
        let found = reach(store, token, view, who, session).await;
        assert_eq!(found, expected, "{token} {view} {who} {session:?}");
    }
    let other = store.tenant_named("other").await;
    for session in [Some("mine"), None] {
        assert_eq!(reach(&other, "link", "v", "c", session).await, LinkReach::Nothing);
    }
    store.record(Record::RevokeShare { id: "link".into(), by: ActingUser::Owner }).await;
    for session in [Some("mine"), None] {
        assert_eq!(reach(store, "link", "v", "c", session).await, LinkReach::Nothing, "it was revoked");
    }
}

async fn the_rows_of_many_responses_are_read_at_once(store: &TestStore) {
    let given: Vec<ResponseRow> =
        ["a", "b", "c"].map(|name| a_response(name, "v", name, 1)).into_iter().collect();
    let mut expected = Vec::new();
    for row in given {
        let saved_at = store.opened(row.clone()).await;
        expected.push(ResponseRow { saved_at, ..row });
    }
    store.create(a_draft("plain")).await;
    let asked = ["c", "plain", "none", "a", "b"].map(id);
    let mut rows = store.response_rows(&store.tenant, &asked).await.unwrap();
    rows.sort_by(|one, other| one.session.as_str().cmp(other.session.as_str()));
    assert_eq!(rows, expected);
    assert_eq!(store.response_rows(&store.tenant, &[]).await.unwrap(), []);
    let other = store.tenant_named("other").await;
    assert_eq!(other.response_rows(&other.tenant, &asked).await.unwrap(), []);
}

async fn a_respondent_has_one_open_response_to_a_view(store: &TestStore) {
    assert_eq!(store.history("c").await, RespondentHistory::default());
    store.opened(a_response("s", "v", "c", 1)).await;
    let second = store.commit(opening(store, a_response("t", "v", "c", 2))).await;
    assert_eq!(verdict(&second), "stale");
    assert!(store.find("t").await.is_none(), "nothing of a refused change is written");
    store.opened(a_response("of another", "v", "d", 1)).await;
    store.opened(a_response("of another view", "w", "c", 1)).await;
    let history = store.history("c").await;
    assert_eq!((history.last_ordinal, history.standing.unwrap().session), (1, id("s")));
    store.record(set("s", ResponseState::Abandoned)).await;
    assert_eq!(store.history("c").await, RespondentHistory { last_ordinal: 1, standing: None });
    store.opened(a_response("t", "v", "c", 2)).await;
    let history = store.history("c").await;
    assert_eq!((history.last_ordinal, history.standing.unwrap().session), (2, id("t")));
}

async fn a_submitted_response_stands_where_each_respondent_submits_one(store: &TestStore) {
    store.opened(a_response("once", "v", "c", 1)).await;
    store.record(set("once", ResponseState::Submitted)).await;
    assert_eq!(verdict(&store.commit(opening(store, a_response("t", "v", "c", 2))).await), "stale");
    store.opened(ResponseRow { once: false, ..a_response("many", "v", "d", 1) }).await;
    store.record(set("many", ResponseState::Submitted)).await;
    store.opened(ResponseRow { once: false, ..a_response("more", "v", "d", 2) }).await;
    let history = store.history("d").await;
    assert_eq!((history.last_ordinal, history.standing.unwrap().session), (2, id("more")));
}

async fn of_many_who_open_at_once_one_wins(store: &TestStore) {
    for round in 0..4 {
        let view = format!("v{round}");
        let answers = store
            .at_once(8, |store, n| {
                let row = a_response(&format!("s{round}-{n}"), &view, "c", 1);
                async move { store.commit(opening(&store, row)).await }
            })
            .await;
        assert!(answers.iter().all(|answer| ["ok", "stale"].contains(&verdict(answer))), "{answers:?}");
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    }
}

async fn a_save_says_when_and_empties_or_sets_the_draft(store: &TestStore) {
    store.opened(a_response("s", "v", "c", 1)).await;
    let saving = |values: Option<&str>| Update { draft_values: Some(values.map(json)), ..Update::default() };
    let change = store.change(updating("s", saving(Some(r#"{"a":"x"}"#))));
    let saved = store.commit(change.record(set("s", ResponseState::Open))).await.unwrap().at;
    let found = store.found_response("s").await.unwrap();
    assert_eq!(found.session.details.draft_values, Some(json(r#"{"a":"x"}"#)));
    assert_eq!(found.row.saved_at, saved);
    store.update("s", Update { title: Some(Some("t".into())), ..Update::default() }).await;
    assert!(store.get("s").await.details.draft_values.is_some(), "another change leaves it");
    store.update("s", saving(None)).await;
    assert_eq!(store.get("s").await.details.draft_values, None);
}

async fn the_longest_silent_anonymous_drafts_are_found(store: &TestStore) {
    for n in 0..5 {
        store.opened(a_response(&format!("s{n}"), "v", &format!("c{n}"), 1)).await;
    }
    store.opened(ResponseRow { is_anonymous: false, ..a_response("member", "v", "m", 1) }).await;
    store.opened(a_response("elsewhere", "w", "c0", 1)).await;
    store.record(set("s0", ResponseState::Open)).await;
    store.record(set("s1", ResponseState::Submitted)).await;
    let silent = async |kept, limit| -> Vec<String> {
        let found = store.silent_drafts(&store.tenant, "v", kept, limit).await.unwrap();
        found.iter().map(ToString::to_string).collect()
    };
    assert_eq!(silent(0, 10).await, ["s2", "s3", "s4", "s0"], "a save makes it the newest");
    assert_eq!(silent(3, 10).await, ["s2"]);
    assert_eq!(silent(2, 1).await, ["s3"], "the next behind those that are kept");
    assert!(silent(4, 10).await.is_empty());
}

async fn responses_are_listed_newest_first_by_their_status_and_page_by_page(store: &TestStore) {
    for n in 0..6 {
        store.opened(a_response(&format!("s{n}"), "v", &format!("c{n}"), 1)).await;
    }
    store.opened(a_response("elsewhere", "w", "c", 1)).await;
    store.create(a_draft("plain")).await;
    for n in [1, 2, 3] {
        store.record(set(&format!("s{n}"), ResponseState::Submitted)).await;
    }
    store.record(set("s4", ResponseState::Abandoned)).await;
    store.record(a_promotion("denied", "s1", ApprovalState::Denied)).await;
    store.record(a_promotion("approved", "s2", ApprovalState::Approved)).await;
    for (filter, listed) in [
        (ResponseFilter::All, &["s5", "s4", "s3", "s2", "s1", "s0"][..]),
        (ResponseFilter::Draft, &["s5", "s0"]),
        (ResponseFilter::Submitted, &["s3", "s1"]),
        (ResponseFilter::Promoted, &["s2"]),
        (ResponseFilter::Abandoned, &["s4"]),
    ] {
        assert_eq!(store.response_ids(filter).await, listed, "{filter:?}");
    }
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let query = ResponseQuery { after, limit: 2, ..listing(ResponseFilter::All) };
        let page = store.responses(&store.tenant, query).await.unwrap();
        assert!(page.items.len() <= 2);
        seen.extend(page.items);
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(seen, store.responses(&store.tenant, listing(ResponseFilter::All)).await.unwrap().items);
    assert_eq!(seen[3].promotion.as_ref().map(|promotion| &*promotion.id), Some("approved"));
    assert_eq!(seen[0].session, store.get("s5").await);
}

async fn a_deleted_session_takes_its_response_with_it(store: &TestStore) {
    store.opened(a_response("s", "v", "c", 1)).await;
    store.delete("s").await;
    assert_eq!(store.found_response("s").await, None);
    assert_eq!(store.history("c").await, RespondentHistory::default());
    assert!(store.response_ids(ResponseFilter::All).await.is_empty());
    store.opened(a_response("s", "v", "c", 1)).await;
}

async fn responses_of_one_tenant_are_nothing_in_another(store: &TestStore) {
    store.opened(a_response("s", "v", "c", 1)).await;
    let other = store.tenant_named("other").await;
    assert_eq!(other.found_response("s").await, None);
    assert_eq!(other.history("c").await, RespondentHistory::default());
    assert!(other.response_ids(ResponseFilter::All).await.is_empty());
    assert!(other.silent_drafts(&other.tenant, "v", 0, 10).await.unwrap().is_empty());
    other.opened(a_response("s", "v", "c", 1)).await;
}

async fn responses_are_there_after_reopening(store: &TestStore) {
    store.opened(a_response("s", "v", "c", 1)).await;
    let before = store.found_response("s").await;
    let again = store.reopened().await;
    assert_eq!(again.found_response("s").await, before);
    again.close().await;
}

async fn a_copy_carries_responses(store: &TestStore) {
    store.opened(a_response("s", "v", "c", 1)).await;
    store.opened(a_response("t", "v", "d", 1)).await;
    store.record(set("t", ResponseState::Submitted)).await;
    let Some(copy) = store.copied().await else { return };
    let listed = store.responses(&store.tenant, listing(ResponseFilter::All)).await.unwrap().items;
    assert_eq!(copy.responses(&copy.tenant, listing(ResponseFilter::All)).await.unwrap().items, listed);
    assert_eq!(verdict(&copy.commit(opening(&copy, a_response("u", "v", "c", 2))).await), "stale");
    copy.remove().await;
}
