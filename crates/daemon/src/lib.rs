//! Parts shared by the processes of all roles: configuration, control API server, capture
//! files, exit codes.
#![forbid(unsafe_code)]

pub mod capture;
pub mod config;
pub mod control;
pub mod failure;
mod invalid;
pub mod renamed;
pub mod schema;
pub mod validate;
