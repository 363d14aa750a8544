//! Pages of definitions whose title, id or slug has the words that a caller looks for. No index holds these words: the
//! stores read through the rows of the list, and this page says what to keep and when to stop.

use sederunt_core::definitions::{DefinitionDoc, DefinitionKind, DocQuery, DocTitle};
use sederunt_core::limits;
use sederunt_core::session::query::Page;

use crate::words::SearchTerms;

/// A page while its list is read through.
pub(crate) struct TitlePage {
    terms: SearchTerms,
    limit: usize,
    /// The list without the words: the next rows to read.
    pub(crate) list: DocQuery,
    found: Vec<(i64, DefinitionDoc)>,
    looked_at: usize,
}

impl TitlePage {
    /// `None` where no row can match.
    pub(crate) fn new(query: &DocQuery, text: &str) -> Option<Self> {
        let terms = SearchTerms::of(&[text.to_owned()])?;
        let limit = query.limit.clamp(1, limits::PAGE_ROWS_MAX);
        let list = DocQuery { text: None, limit: limits::PAGE_ROWS_MAX, ..query.clone() };
        Some(Self { terms, limit, list, found: Vec::new(), looked_at: 0 })
    }

    /// Whether a row is what the caller looks for.
    pub(crate) fn matches(&self, id: &str, slug: Option<&str>, title: Option<&str>) -> bool {
        self.terms.match_text(&[title.unwrap_or_default(), slug.unwrap_or_default(), id].join(" "))
    }

    pub(crate) fn matches_body(
        &self,
        kind: DefinitionKind,
        id: &str,
        slug: Option<&str>,
        body: &str,
    ) -> bool {
        self.matches(id, slug, DocTitle::of(kind, id, body).title.as_deref())
    }

    pub(crate) fn push(&mut self, n: i64, doc: DefinitionDoc) {
        self.found.push((n, doc));
    }

    /// How many more rows the page takes, with the one that says that there are more.
    pub(crate) fn room(&self) -> usize {
        (self.limit + 1).saturating_sub(self.found.len())
    }

    /// Whether the page has all that it can show, and one more.
    pub(crate) fn is_full(&self) -> bool {
        self.room() == 0
    }

    /// Notes that rows of the list were read. Returns whether to read on.
    pub(crate) fn read_on(&mut self, rows: usize, next: Option<i64>) -> bool {
        self.looked_at += rows;
        self.list.after = next;
        next.is_some() && !self.is_full() && self.looked_at < limits::PAGE_SCAN_MAX
    }

    /// The page. It continues where its rows end, or where reading ended.
    pub(crate) fn into_page(self) -> Page<DefinitionDoc, i64> {
        let rest = self.list.after;
        let mut page = Page::cut(self.found, self.limit);
        page.next = page.next.or(rest);
        page
    }
}
