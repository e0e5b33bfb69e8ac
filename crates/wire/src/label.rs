//! The path label in the outer destination port: destination branch, source branch, member path and
//! path group, 4 bits each (0x`dsmg`).

/// Port on which branch `destination` takes connections of path group `group`: the label with source
/// and member path still zero. Only the low four bits of each count.
#[must_use]
pub const fn port(destination: u8, group: u8) -> u16 {
    ((destination as u16 & 0xf) << 12) | (group as u16 & 0xf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_example() {
        assert_eq!(port(2, 4), 0x2004);
        assert_eq!(port(15, 15), 0xf00f);
    }
}
