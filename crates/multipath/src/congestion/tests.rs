use std::collections::VecDeque;

use super::*;

const PACKET: u16 = 1500;

/// A link with a queue of 50 packets, and a sender that always has something to send.
struct Link {
    rate: Rate,
    delay: Duration,
    loss: u64,
    /// State of xorshift64*, and the share of packets that are lost by chance.
    random: Option<(u64, f64)>,
    capacity: u64,
    free: Instant,
    under_way: VecDeque<(Instant, Instant, bool)>,
    congestion: Congestion,
    sent: u64,
    lost: u64,
    delivered: u64,
    longest: Duration,
    /// One packet in so many is late by up to so many ms, and those behind it with it.
    late: Option<(u64, u64)>,
    /// Times in which this machine does nothing.
    stalls: Vec<(Instant, Instant)>,
    clock: Instant,
}

impl Link {
    fn new(start: Instant, mbps: f64, delay_ms: u64, loss: u64) -> Self {
        Self {
            rate: Rate::from_bytes_per_second(mbps * 125_000.0),
            delay: Duration::from_millis(delay_ms) + Duration::from_micros(200),
            loss,
            random: None,
            capacity: 50,
            free: start,
            under_way: VecDeque::new(),
            congestion: Congestion::new(start, PACKET),
            sent: 0,
            lost: 0,
            delivered: 0,
            longest: Duration::ZERO,
            late: None,
            stalls: Vec::new(),
            clock: start,
        }
    }

    fn in_flight(&self) -> u64 {
        self.under_way.len() as u64 * u64::from(PACKET)
    }

    fn run(&mut self, until: Instant) {
        let mut now = self.clock;
        while now < until {
            while self.in_flight() + u64::from(PACKET) <= self.congestion.window() {
                self.send(now);
            }
            let Some((sent, back, lost)) = self.under_way.pop_front() else { return };
            now = now.max(back);
            let stall = self.stalls.iter().find(|(from, until)| (*from..*until).contains(&now));
            now = stall.map_or(now, |(_, until)| *until);
            self.clock = now;
            if lost {
                self.lost += 1;
                self.congestion.on_lost(PACKET.into(), false);
                continue;
            }
            self.delivered += u64::from(PACKET);
            self.longest = self.longest.max(now - sent);
            self.congestion.on_ack(now, sent, PACKET.into());
            self.congestion.on_acks_end(now, self.in_flight());
        }
    }

    /// Share of it that is used between two times.
    fn used(&mut self, from: Instant, until: Instant) -> f64 {
        self.run(from);
        (self.delivered, self.longest) = (0, Duration::ZERO);
        self.run(until);
        self.delivered as f64 / self.rate.bytes(until - from) as f64
    }

    fn send(&mut self, now: Instant) {
        self.sent += 1;
        let full = self.free > now + self.rate.time(self.capacity * u64::from(PACKET));
        let mut lost = full || (self.loss > 0 && self.sent.is_multiple_of(self.loss));
        if let Some((state, share)) = &mut self.random {
            *state ^= *state >> 12;
            *state ^= *state << 25;
            *state ^= *state >> 27;
            let word = state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11;
            lost |= (word as f64 / (1_u64 << 53) as f64) < *share;
        }
        self.free =
            self.free.max(now) + if full { Duration::ZERO } else { self.rate.time(PACKET.into()) };
        let late = self.late.filter(|(one_in, _)| self.sent.is_multiple_of(*one_in));
        let late = late.map_or(0, |(_, most)| self.sent * 37 % (most + 1));
        let late = Duration::from_millis(late);
        let before = self.under_way.back().map_or(now, |(_, back, _)| *back);
        let back = (self.free + self.delay + late).max(before);
        self.under_way.push_back((now, back, lost));
    }
}

/// Share of the link used, and the longest round trip, in the last five of ten seconds.
fn settled(mbps: f64, delay_ms: u64, loss: u64) -> (f64, Duration) {
    let start = Instant::now();
    let mut link = Link::new(start, mbps, delay_ms, loss);
    let seconds = Duration::from_secs;
    (link.used(start + seconds(5), start + seconds(10)), link.longest)
}

#[test]
fn links_are_full_and_their_queues_short() {
    for mbps in [1.0, 10.0, 33.0, 100.0] {
        for delay in [0, 20, 80] {
            let (share, longest) = settled(mbps, delay, 0);
            let extra = longest.saturating_sub(Duration::from_millis(delay)).as_secs_f64();
            let allowed = (10.0 * 12e-3 / mbps).max(0.03);
            assert!(share > 0.93, "{mbps} Mbit/s, {delay} ms: {share}");
            assert!(extra < allowed, "{mbps} Mbit/s, {delay} ms: {extra} s");
        }
    }
}

#[test]
fn random_loss_takes_less_than_a_third() {
    for delay in [5, 20] {
        let (share, _) = settled(50.0, delay, 50);
        assert!(share > 0.7, "{delay} ms: {share}");
    }
}

/// Loss by chance, also of the first packets, is no reason to use less of a path.
#[test]
fn light_random_loss_takes_what_it_takes() {
    for (mbps, delay, share, least) in [
        (50.0, 40, 0.005, 0.95),
        (50.0, 40, 0.02, 0.93),
        (15.0, 120, 0.01, 0.93),
        (15.0, 120, 0.02, 0.8),
        (100.0, 100, 0.005, 0.85),
    ] {
        for seed in 1..9_u64 {
            let start = Instant::now();
            let at = |seconds| start + Duration::from_secs(seconds);
            let mut link = Link::new(start, mbps, delay, 0);
            link.capacity = 1000;
            link.random = Some((seed.wrapping_mul(0x9E37_79B9_7F4A_7C15), share));
            let used = link.used(at(5), at(10));
            assert!(used > least, "{mbps} Mbit/s, {delay} ms, seed {seed}: {used}");
        }
    }
}

/// A long path whose first packets are too few to make a queue, and of which some are lost.
#[test]
fn what_was_not_measured_bounds_nothing() {
    let start = Instant::now();
    let ms = Duration::from_millis;
    let mut congestion = Congestion::new(start, PACKET);
    (congestion.window, congestion.startup) = (60_000.0, false);
    for round in 0..10 {
        let sent = start + ms(40 * round);
        let now = sent + ms(40);
        congestion.on_ack(now, sent, PACKET.into());
        congestion.on_acks_end(now, 58_500);
    }
    assert_eq!(congestion.rate, Rate::ZERO);
    assert!(congestion.window() > 50_000, "{}", congestion.window());
}

#[test]
fn a_path_that_varies_is_not_left_idle_to_see_its_delay() {
    let mut congestion = Congestion::new(Instant::now(), PACKET);
    congestion.window = 1e6;
    congestion.rate = Rate::from_bytes_per_second(1e6);
    congestion.jitter.mean = 0.1;
    assert!(congestion.base.note(Instant::now(), Duration::from_millis(20)));
    assert!(congestion.drained() < 20_000.0);
    congestion.jitter.rise = 0.01;
    assert!((congestion.drained() - 750_000.0).abs() < 1.0);
}

#[test]
fn delays_that_vary_are_no_queue() {
    for (capacity, least) in [(1000, 0.85), (200, 0.7), (50, 0.3)] {
        let start = Instant::now();
        let mut link = Link { late: Some((10, 60)), capacity, ..Link::new(start, 50.0, 5, 0) };
        link.run(start + Duration::from_secs(5));
        let share = link.delivered as f64 / link.rate.bytes(Duration::from_secs(5)) as f64;
        assert!(share > least, "{capacity}: {share}");
        // A short queue loses what bursts do not fit into it: that is seen, too.
        assert!(link.lost * 10 < link.sent, "{capacity}: {} of {} lost", link.lost, link.sent);
    }
}

/// Each packet is late by some time: round trips under load are some times as long as those of a lone packet.
#[test]
fn paths_on_which_all_varies_are_filled() {
    for (mbps, delay, late, capacity, least) in
        [(100.0, 50, 120, 1000, 0.95), (50.0, 20, 90, 500, 0.85)]
    {
        for seed in 1..9_u64 {
            let start = Instant::now();
            let at = |seconds| start + Duration::from_secs(seconds);
            let mut link =
                Link { late: Some((1, late)), capacity, ..Link::new(start, mbps, delay, 0) };
            link.random = Some((seed.wrapping_mul(0x9E37_79B9_7F4A_7C15), 0.01));
            let used = link.used(at(5), at(20));
            assert!(used > least, "{mbps} Mbit/s, seed {seed}: {used}");
            assert!(link.lost * 30 < link.sent, "{mbps} Mbit/s, seed {seed}: {} lost", link.lost);
        }
    }
}

#[test]
fn the_rate_is_found() {
    let start = Instant::now();
    let mut link = Link::new(start, 33.0, 10, 0);
    link.run(start + Duration::from_secs(3));
    let found = link.congestion.rate().bits_per_second() / 1e6;
    assert!((31.0..35.0).contains(&found), "{found}");
    assert_eq!(link.congestion.base(), Some(link.delay + link.rate.time(PACKET.into())));
}

/// A machine that has no time for some tens of milliseconds makes round trips longer, and packets go in bursts. That is
/// not the path's doing, and no reason to send more than its queue takes.
#[test]
fn a_stall_is_no_reason_for_a_larger_window() {
    for (mbps, delay) in [(33.0, 2), (10.0, 20), (100.0, 2)] {
        for ends in [[40, 60, 60, 60], [18, 30, 45, 60], [9, 30, 33, 55], [25, 28, 50, 60]] {
            let start = Instant::now();
            let at = |ms| start + Duration::from_millis(ms);
            let mut link = Link::new(start, mbps, delay, 0);
            for second in [2000, 3000] {
                let mut begin = at(second);
                for end in ends.map(|ms| at(second + ms)) {
                    link.stalls.push((begin, end));
                    begin = end + Duration::from_millis(1);
                }
            }
            link.run(at(1990));
            let (window, lost, sent) = (link.congestion.window(), link.lost, link.sent);
            link.run(at(4500));
            let what = format!("{mbps} Mbit/s, {delay} ms, {ends:?}");
            let (lost, sent) = (link.lost - lost, link.sent - sent);
            assert!(lost * 20 < sent, "{what}: {lost} of {sent} lost");
            let after = link.congestion.window();
            assert!(after * 4 < window * 5, "{what}: window {after}, was {window}");
        }
    }
}
