use super::*;

struct Bench {
    resequencer: Resequencer<u32>,
    passed: Vec<u32>,
    start: Instant,
    /// Bitmap of paths in use.
    paths: u16,
    /// Whether packets are retransmittable.
    retransmittable: bool,
    /// Whether packets need order.
    ordered: bool,
}

impl Bench {
    fn new(limit: usize) -> Self {
        let (resequencer, start) = (Resequencer::new(limit), Instant::now());
        Self {
            resequencer,
            passed: vec![],
            start,
            paths: 0b11,
            retransmittable: false,
            ordered: true,
        }
    }

    fn at(&self, ms: u64) -> Instant {
        self.start + Duration::from_millis(ms)
    }

    fn push(&mut self, ms: u64, path: usize, sequence: u32, behind: u16) {
        let tag = Tag {
            flow: 5,
            sequence,
            behind,
            paths: self.paths,
            retransmittable: self.retransmittable,
        };
        let now = self.at(ms);
        let packet = (sequence, self.ordered);
        self.resequencer.push(now, path, tag, packet, &mut |packet| self.passed.push(packet));
    }

    fn expire(&mut self, ms: u64) {
        let now = self.at(ms);
        self.resequencer.expire(now, &mut |packet| self.passed.push(packet));
    }
}

#[test]
fn packets_in_order_are_delivered_at_once() {
    let mut bench = Bench::new(10);
    (0..5).for_each(|n| bench.push(0, 0, n, 0));
    assert_eq!(bench.passed, [0, 1, 2, 3, 4]);
    assert_eq!((bench.resequencer.buffered(), bench.resequencer.poll_timeout()), (0, None));
    assert_eq!(bench.resequencer.counters().in_order, 5);
}

#[test]
fn packets_ahead_of_a_gap_are_buffered() {
    let mut bench = Bench::new(10);
    bench.push(0, 0, 0, 0);
    bench.push(1, 1, 2, 0);
    bench.push(2, 1, 3, 0);
    assert_eq!(bench.passed, [0]);
    bench.push(9, 0, 1, 0);
    assert_eq!(bench.passed, [0, 1, 2, 3]);
    assert_eq!(bench.resequencer.poll_timeout(), None);
}

#[test]
fn unordered_packets_are_delivered_at_once() {
    let mut bench = Bench::new(10);
    bench.push(0, 0, 0, 0);
    bench.ordered = false;
    (3..40).for_each(|n| bench.push(1, 1, n, 0));
    bench.push(2, 1, 5, 0);
    bench.ordered = true;
    bench.push(3, 1, 40, 0);
    assert_eq!(bench.passed, (0..1).chain(3..40).collect::<Vec<_>>());
    assert_eq!(bench.resequencer.buffered(), 1);
    bench.push(4, 0, 1, 0);
    bench.expire(100);
    assert_eq!(bench.passed[38..], [1, 40]);
    bench.push(101, 0, 2, 0);
    assert_eq!(bench.passed.last(), Some(&2));
    let counters = bench.resequencer.counters();
    let Counters { in_order, late, resequenced, duplicates, .. } = counters;
    assert_eq!((in_order, late, resequenced, duplicates), (39, 1, 1, 1));
    assert_eq!(bench.resequencer.poll_timeout(), None);
}

#[test]
fn losses_on_a_single_path_are_detected_at_once() {
    let mut bench = Bench::new(10);
    bench.paths = 0b01;
    bench.push(0, 0, 0, 0);
    bench.push(1, 0, 4, 0); // three in a row
    assert_eq!(bench.passed, [0, 4]);
    assert_eq!(bench.resequencer.counters().lost, 3);
    // one of them was not lost
    bench.push(2, 0, 1, 0);
    assert_eq!(bench.passed, [0, 4, 1]);
    bench.push(3, 0, 1, 0);
    assert_eq!(bench.resequencer.counters().duplicates, 1);
}

#[test]
fn gaps_behind_all_paths_are_declared_lost() {
    let mut bench = Bench::new(10);
    bench.push(0, 0, 0, 0);
    bench.push(1, 1, 3, 0);
    bench.push(2, 0, 5, 3); // 3 was the first that had not left: so 1 had, and 2
    assert_eq!(bench.passed, [0, 3]);
    bench.push(3, 1, 4, 0);
    assert_eq!(
        (bench.passed.as_slice(), bench.resequencer.buffered()),
        ([0, 3, 4, 5].as_slice(), 0)
    );
    assert_eq!(bench.resequencer.counters().lost, 2);
}

#[test]
fn pending_packets_are_waited_for() {
    let mut bench = Bench::new(10);
    bench.paths = 0b01;
    bench.push(0, 0, 0, 0);
    bench.push(1, 0, 3, 2); // 2 had not left then, 1 had
    assert_eq!((bench.passed.as_slice(), bench.resequencer.buffered()), ([0].as_slice(), 1));
    bench.push(2, 0, 2, 0);
    assert_eq!(bench.passed, [0, 2, 3]);
}

#[test]
fn a_gap_of_a_silent_path_expires_at_the_deadline() {
    let mut bench = Bench::new(10);
    bench.push(0, 0, 0, 0);
    bench.push(1, 1, 2, 0);
    let deadline = bench.resequencer.deadline();
    assert_eq!(bench.resequencer.poll_timeout(), Some(bench.at(1) + deadline));
    bench.expire(20);
    assert_eq!(bench.passed, [0]);
    bench.expire(1 + u64::try_from(deadline.as_millis()).unwrap());
    assert_eq!(bench.passed, [0, 2]);
    assert_eq!(bench.resequencer.counters().expired, 1);
}

#[test]
fn expired_gaps_are_abandoned_together() {
    let mut bench = Bench::new(100);
    for n in [1, 3, 5, 7] {
        bench.push(0, 1, n, 0);
    }
    bench.expire(500);
    assert_eq!(bench.passed, [1, 3, 5, 7]);
    assert_eq!(bench.resequencer.poll_timeout(), None);
}

#[test]
fn retransmittable_packets_are_waited_for_longer() {
    for (retransmittable, passed) in [(false, [0, 2].as_slice()), (true, &[0, 1, 2])] {
        let mut bench = Bench { retransmittable, ..Bench::new(10) };
        let ms = Duration::from_millis;
        bench.resequencer.set_min_wait(ms(10), ms(100));
        bench.push(0, 0, 0, 1);
        bench.push(1, 1, 2, 3);
        bench.expire(100);
        bench.push(105, 0, 1, 0);
        bench.push(106, 0, 2, 0);
        assert_eq!(bench.passed.get(..passed.len()), Some(passed));
        assert_eq!(bench.resequencer.counters().duplicates, 1);
    }
}

#[test]
fn old_duplicates_are_dropped() {
    let mut bench = Bench::new(10);
    (0..20_000).filter(|n| *n != 19_000).for_each(|n| bench.push(0, 0, n, 0));
    for n in [19_999, 19_000, 19_000, 15_000, 3] {
        bench.push(1, 0, n, 0);
    }
    assert_eq!(bench.passed.len(), 20_000);
    assert_eq!(bench.passed.last(), Some(&19_000));
    assert_eq!(bench.resequencer.counters().duplicates, 4);
}

#[test]
fn memory_is_bounded() {
    let mut bench = Bench::new(10);
    (0..1000).for_each(|n| bench.push(0, 1, 1 + 2 * n, 0));
    assert!(bench.resequencer.buffered() <= 10);
    assert!(bench.passed.is_sorted() && bench.passed.len() >= 990);
}

#[test]
fn a_packet_beyond_the_window_restarts_the_flow() {
    let mut bench = Bench::new(10);
    bench.push(0, 0, 0, 0);
    bench.push(0, 0, 2, 0);
    bench.push(0, 0, 1_000_000, 0);
    bench.push(0, 0, 1_000_001, 0);
    assert_eq!(bench.passed, [0, 2, 1_000_000, 1_000_001]);
}

#[test]
fn duplicates_are_delivered_once() {
    let mut bench = Bench::new(10);
    for (n, behind) in [(0, 0), (1, 0), (3, 2)] {
        bench.push(0, 0, n, behind);
        bench.push(0, 1, n, behind);
    }
    bench.push(0, 0, 2, 0);
    assert_eq!(bench.passed, [0, 1, 2, 3]);
    assert_eq!(bench.resequencer.counters().duplicates, 3);
}

#[test]
fn sequence_numbers_wrap_around() {
    let mut bench = Bench::new(10);
    bench.push(0, 0, u32::MAX / 2, 0);
    bench.push(0, 0, u32::MAX - 1, 0);
    bench.push(0, 0, 0, 0);
    bench.push(0, 1, u32::MAX, 0);
    assert_eq!(bench.passed, [u32::MAX / 2, u32::MAX - 1, u32::MAX, 0]);
}
