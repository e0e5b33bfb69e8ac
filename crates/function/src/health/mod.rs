//! Health of service functions: which instances are up, and what is done with a chain whose function is down.
//!
//! A [`Monitor`] runs the checks of every instance and maintains a [`Health`] table, from which a role reads
//! what is [`Down`].

pub(crate) mod document;
mod monitor;
mod probe;
pub(crate) mod report;
mod state;
mod table;

#[cfg(test)]
pub(crate) use self::table::{Health, Place};
pub(crate) use self::{
    monitor::Monitor,
    probe::http,
    table::{Down, Verdict, check_functions, check_names},
};
