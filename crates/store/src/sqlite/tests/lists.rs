//! Lists of sessions by words that many of them have.

use std::time::Instant;

use sederunt_core::session::query::{SessionQuery, TypeFilter};

use super::*;

const SESSIONS: usize = 10_000;
/// Five lists, in a build without optimisation on a busy machine.
const LISTS_MAX: Duration = Duration::from_secs(3);

fn titled(name: &str, title: String) -> ChangePart {
    let mut part = new_session(name);
    if let PartTarget::New(new) = &mut part.on {
        new.details.title = Some(title.into());
    }
    part
}

#[tokio::test]
async fn a_word_that_many_sessions_have_is_found_as_quickly_as_a_rare_one() {
    let store = in_memory();
    for hundred in 0..SESSIONS / 100 {
        let parts = (0..100).map(|n| {
            let n = hundred * 100 + n;
            let when = if n < SESSIONS / 2 { "Early" } else { "Late" };
            titled(&format!("s{n:05}"), format!("{when} bird number{n:05}"))
        });
        store.commit(change(parts)).await.unwrap();
    }
    store.index_now().await.unwrap();
    let begun = Instant::now();
    for (text, newest, found) in [
        ("bird", 9_999, 50),
        ("late", 9_999, 50),
        // None of the newest has it.
        ("early", 4_999, 50),
        ("earl bir", 4_999, 50),
        ("number00042", 42, 1),
    ] {
        let query = SessionQuery { text: Some(text.into()), ..SessionQuery::of(TypeFilter::All, 50) };
        let page = store.sessions(&tenant(), query.clone()).await.unwrap();
        let ids: Vec<&str> = page.items.iter().map(|session| session.id.as_str()).collect();
        let expected: Vec<String> = (0..found).map(|n| format!("s{:05}", newest - n)).collect();
        assert_eq!(ids, expected, "{text}");
        assert_eq!(page.next.is_some(), found == 50, "{text}");
        if let Some(next) = page.next {
            let page = store.sessions(&tenant(), SessionQuery { after: Some(next), ..query }).await.unwrap();
            assert_eq!(page.items[0].id.as_str(), format!("s{:05}", newest - 50), "{text}");
        }
    }
    assert!(begun.elapsed() < LISTS_MAX, "{:?}", begun.elapsed());
}
