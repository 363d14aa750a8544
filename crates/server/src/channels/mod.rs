//! Channels: one room per platform. A room translates: what a platform sends into the words of
//! [`sederunt_core::channel`], and what is to be sent into the platform's calls. Refuses to decide who is answered.

pub mod telegram;
