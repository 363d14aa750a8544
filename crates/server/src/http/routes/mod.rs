//! The routes: each translates a request into one call of the engine, and its outcome into an
//! answer. One file per noun.

pub mod activity_block;
pub mod agents;
pub mod approvals;
pub mod audit;
pub mod bundle;
pub mod chat;
pub mod crises;
pub mod criteria;
pub mod documents;
pub mod entities;
pub mod events;
pub mod feedback;
pub mod human;
pub mod keys;
pub mod lessons;
pub mod memory;
pub mod messages;
pub mod meta;
pub mod participants;
pub mod presence;
pub mod responses;
pub mod search;
pub mod sessions;
pub mod shares;
pub mod sign_in;
pub mod streams;
pub mod tasks;
pub mod tenants;
pub mod threads;
pub mod tools;
pub mod users;
pub mod views;
pub mod voice;
pub mod work;
pub mod work_queue;
