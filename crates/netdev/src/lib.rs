//! The edges of the kernel that packets pass.

#![allow(unsafe_code)]

pub mod interface;
pub mod namespace;
pub mod packet;
