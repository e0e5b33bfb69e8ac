//! The numbers that the programs' headers give: written by the build, so that they are named once.

#![allow(dead_code)] // some only the programs use
#![allow(clippy::unreadable_literal)] // nobody reads what the build writes

include!(concat!(env!("OUT_DIR"), "/codes.rs"));

/// A number in a field of one byte.
pub(crate) const fn byte(code: u32) -> u8 {
    let [low, ..] = code.to_le_bytes();
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_those_of_the_programs() {
        assert_eq!(crate::nsh::Drops::NAMES, nsh::DROPS);
        assert_eq!(crate::srv6::Drops::NAMES, srv6::DROPS);
        assert_eq!(crate::switch::Drops::NAMES, switch::DROPS);
    }
}
