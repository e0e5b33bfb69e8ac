//! The daemon that moves packets: one event loop a role.

fn main() {}
