//! The server as its clients meet it: a real listener on a port of its own, on every store.
//!
//! One file per resource, mirroring the URLs. PostgreSQL is named by `SEDERUNT_TEST_POSTGRES`; without
//! it the run fails rather than passing unseen.

#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

mod issuer;
mod server;

mod activity_block;
mod approvals;
mod audit;
mod bad_input;
mod budgets;
mod comments;
mod confidence;
mod connections;
mod crises;
mod definitions;
mod documents;
mod events;
mod feedback;
mod groups;
mod hints;
mod human;
mod idempotency;
mod keys;
mod limits;
mod local;
mod logs;
mod mcp;
mod mcp_feedback;
mod memory;
mod meta;
mod participants;
mod plain_words;
mod presence;
mod promotions;
mod readers;
mod respondents;
mod responses;
mod rights;
mod search;
mod sessions;
mod shares;
mod shutdown;
mod sign_in;
mod stops;
mod stream;
mod talk;
mod talk_tools;
mod tasks;
mod tenants;
mod tokens;
mod tools;
mod users;
mod views;
mod voice;
mod web_app;
mod work;
mod work_queue;
