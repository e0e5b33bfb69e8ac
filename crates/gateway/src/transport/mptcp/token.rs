//! Poller tokens.

/// Owner of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Manager,
    Listener(usize),
    Unauthenticated(usize),
    Group(usize, usize),
}

impl Token {
    pub(super) fn pack(self) -> u64 {
        let (kind, a, b) = match self {
            Self::Listener(a) => (2, a, 0),
            Self::Unauthenticated(a) => (3, a, 0),
            Self::Group(a, b) => (4, a, b),
            Self::Manager => (5, 0, 0),
        };
        kind << 56 | (a as u64 & 0xfff_ffff) << 28 | (b as u64 & 0xfff_ffff)
    }

    pub(super) fn unpack(token: u64) -> Self {
        let part = |shift: u32| usize::try_from(token >> shift & 0xfff_ffff).unwrap_or(usize::MAX);
        let (a, b) = (part(28), part(0));
        match token >> 56 {
            2 => Self::Listener(a),
            3 => Self::Unauthenticated(a),
            4 => Self::Group(a, b),
            _ => Self::Manager,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_packed_and_unpacked() {
        let all =
            [Token::Manager, Token::Listener(3), Token::Unauthenticated(63), Token::Group(13, 15)];
        for token in all {
            assert_eq!(Token::unpack(token.pack()), token);
        }
    }
}
