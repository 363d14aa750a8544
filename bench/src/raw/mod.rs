//! The baselines: what the same durability and layout cost a program that does nothing else, and Redis.

pub mod fanout;
pub mod postgres;
pub mod redis;
pub mod sqlite;
