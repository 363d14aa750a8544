//! Stand-ins for the platforms of channels: servers on loopback that answer as the platforms publish that they do, keep
//! what they were asked, and refuse what the platforms refuse. Written from the published formats, not recorded.

pub mod telegram;
