//! The sequence of frame sizes of a stream.

use crate::config::{Imix, Sizes, Weight};

/// Letters of the IMIX genome (RFC 6985 section 3) and their frame sizes, bytes with frame check sequence.
const LETTERS: [(char, u32); 10] = [
    ('a', 64),
    ('b', 128),
    ('c', 256),
    ('d', 512),
    ('e', 1024),
    ('f', 1280),
    ('g', 1518),
    ('h', 2112),
    ('i', 9000),
    ('j', 16_000),
];

/// The sizes of one cycle, in the unit that the configuration counts. The error is a letter without a size.
pub(super) fn sequence(sizes: &Sizes) -> Result<Vec<u32>, char> {
    match sizes {
        Sizes::Fixed(size) => Ok(vec![*size]),
        Sizes::Imix(imix) => imix.genome.chars().map(|letter| of_letter(imix, letter)).collect(),
        Sizes::Weighted(weights) => Ok(spread(weights)),
    }
}

/// Whether sizes always include the frame check sequence, as those of RFC 6985 do.
pub(super) fn counts_check_sequence(sizes: &Sizes) -> bool {
    matches!(sizes, Sizes::Imix(_))
}

fn of_letter(imix: &Imix, letter: char) -> Result<u32, char> {
    let standard = LETTERS.iter().find(|(known, _)| *known == letter).map(|(_, size)| *size);
    let known = standard.or((letter == 'z').then_some(imix.z));
    known.or(imix.custom.get(&letter).copied()).ok_or(letter)
}

/// Spreads sizes evenly by weight with smooth weighted round robin, as in nginx: each position gets the size
/// that is furthest behind its share.
fn spread(weights: &[Weight]) -> Vec<u32> {
    let divisor = weights.iter().fold(0, |all, weight| gcd(all, i64::from(weight.weight))).max(1);
    let shares: Vec<i64> = weights.iter().map(|w| i64::from(w.weight) / divisor).collect();
    let total: i64 = shares.iter().sum();
    let mut credit = vec![0; weights.len()];
    let mut sequence = Vec::new();
    for _ in 0..total {
        credit.iter_mut().zip(&shares).for_each(|(credit, share)| *credit += share);
        // max_by_key returns the last of equal elements; rev() makes it the first.
        let best =
            credit.iter().zip(weights).enumerate().rev().max_by_key(|(_, (credit, _))| **credit);
        let Some((index, (_, weight))) = best else { break };
        sequence.push(weight.size);
        if let Some(credit) = credit.get_mut(index) {
            *credit -= total;
        }
    }
    sequence
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_genome_is_read_letter_by_letter() {
        let custom = [('A', 62)].into();
        let imix = Imix { genome: "aAgjz".into(), custom, z: 9018 };
        assert_eq!(sequence(&Sizes::Imix(imix)), Ok(vec![64, 62, 1518, 16_000, 9018]));
    }

    #[test]
    fn an_unknown_letter_is_named() {
        let imix = Imix { genome: "aB".into(), custom: [].into(), z: 1518 };
        assert_eq!(sequence(&Sizes::Imix(imix)), Err('B'));
    }

    #[test]
    fn weights_are_spread() {
        let weights = [(48, 7), (576, 4), (1438, 1)].map(|(size, weight)| Weight { size, weight });
        let sizes = sequence(&Sizes::Weighted(weights.into())).unwrap();
        assert_eq!(sizes, [48, 576, 48, 48, 576, 48, 1438, 48, 576, 48, 576, 48]);
    }

    proptest! {
        #[test]
        fn each_size_gets_its_weight(weights in prop::collection::vec(1u32..50, 1..8)) {
            let sizes: Vec<_> =
                (0u32..).zip(&weights).map(|(size, weight)| Weight { size, weight: *weight }).collect();
            let sequence = spread(&sizes);
            let turns = weights.iter().sum::<u32>() as usize / sequence.len();
            for (size, weight) in (0u32..).zip(&weights) {
                let count = sequence.iter().filter(|s| **s == size).count();
                prop_assert_eq!(count * turns, *weight as usize);
            }
        }
    }
}
