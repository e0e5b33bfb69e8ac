use std::collections::VecDeque;

use super::*;

const PACKET: u16 = 1500;

/// A link with a drop-tail queue of 50 packets, and a sender that always has data.
struct Link {
    rate: Rate,
    delay: Duration,
    loss: u64,
    /// State of xorshift64*, and the random loss rate.
    random: Option<(u64, f64)>,
    capacity: u64,
    free: Instant,
    in_transit: VecDeque<(Instant, Instant, bool)>,
    congestion: Congestion,
    sent: u64,
    lost: u64,
    delivered: u64,
    longest: Duration,
    /// One packet in so many is delayed by up to so many ms, and with it those behind it.
    late: Option<(u64, u64)>,
    /// Interval at which acknowledgements arrive, all that are due at once.
    held: Option<Duration>,
    start: Instant,
    /// Intervals in which the host does not run.
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
            in_transit: VecDeque::new(),
            congestion: Congestion::new(start, PACKET),
            sent: 0,
            lost: 0,
            delivered: 0,
            longest: Duration::ZERO,
            late: None,
            held: None,
            start,
            stalls: Vec::new(),
            clock: start,
        }
    }

    fn in_flight(&self) -> u64 {
        self.in_transit.len() as u64 * u64::from(PACKET)
    }

    fn run(&mut self, until: Instant) {
        let mut now = self.clock;
        while now < until {
            while self.in_flight() + u64::from(PACKET) <= self.congestion.window() {
                self.send(now);
            }
            let Some((sent, back, lost)) = self.in_transit.pop_front() else { return };
            now = now.max(back);
            let stall = self.stalls.iter().find(|(from, until)| (*from..*until).contains(&now));
            now = stall.map_or(now, |(_, until)| *until);
            self.clock = now;
            if lost {
                self.lost += 1;
                self.congestion.on_lost(sent, PACKET.into(), false);
                continue;
            }
            self.delivered += u64::from(PACKET);
            self.longest = self.longest.max(now - sent);
            self.congestion.on_ack(now, sent, PACKET.into());
            self.congestion.on_end_acks(now, self.in_flight());
        }
    }

    /// Utilization of the link between two times.
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
        let before = self.in_transit.back().map_or(now, |(_, back, _)| *back);
        let back = self.held_until(self.free + self.delay + late).max(before);
        self.in_transit.push_back((now, back, lost));
    }

    fn held_until(&self, back: Instant) -> Instant {
        let Some(held) = self.held else { return back };
        let times = (back - self.start).div_duration_f64(held).ceil();
        self.start + held.mul_f64(times)
    }
}

/// Utilization, and the longest RTT, in the last five of ten seconds.
fn settled(mbps: f64, delay_ms: u64, loss: u64) -> (f64, Duration) {
    let start = Instant::now();
    let mut link = Link::new(start, mbps, delay_ms, loss);
    let seconds = Duration::from_secs;
    (link.used(start + seconds(5), start + seconds(10)), link.longest)
}

#[test]
fn links_are_utilized_with_short_queues() {
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
fn random_loss_costs_less_than_a_third() {
    for delay in [5, 20] {
        let (share, _) = settled(50.0, delay, 50);
        assert!(share > 0.7, "{delay} ms: {share}");
    }
}

/// Random loss, even of the first packets, must not reduce utilization.
#[test]
fn light_random_loss_keeps_utilization() {
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

/// A long path whose first packets, some of them lost, are too few to build a queue.
#[test]
fn an_unmeasured_rate_does_not_bound_the_window() {
    let start = Instant::now();
    let ms = Duration::from_millis;
    let mut congestion = Congestion::new(start, PACKET);
    (congestion.window, congestion.slow_start) = (60_000.0, false);
    for round in 0..10 {
        let sent = start + ms(40 * round);
        let now = sent + ms(40);
        congestion.on_ack(now, sent, PACKET.into());
        congestion.on_end_acks(now, 58_500);
    }
    assert_eq!(congestion.rate, Rate::ZERO);
    assert!(congestion.window() > 50_000, "{}", congestion.window());
}

#[test]
fn a_jittery_path_is_not_drained_completely() {
    let mut congestion = Congestion::new(Instant::now(), PACKET);
    congestion.window = 1e6;
    congestion.rate = Rate::from_bytes_per_second(1e6);
    congestion.jitter.srtt = 0.1;
    assert!(congestion.base_rtt.note(Instant::now(), Duration::from_millis(20)));
    assert!(congestion.drain_window() < 20_000.0);
    congestion.jitter.rtt_increase = 0.01;
    assert!((congestion.drain_window() - 750_000.0).abs() < 1.0);
}

#[test]
fn jitter_is_not_taken_for_a_queue() {
    for (capacity, least) in [(1000, 0.85), (200, 0.7), (50, 0.3)] {
        let start = Instant::now();
        let mut link = Link { late: Some((10, 60)), capacity, ..Link::new(start, 50.0, 5, 0) };
        link.run(start + Duration::from_secs(5));
        let share = link.delivered as f64 / link.rate.bytes(Duration::from_secs(5)) as f64;
        assert!(share > least, "{capacity}: {share}");
        // Bursts overflow a short queue; the controller must react to that loss.
        assert!(link.lost * 10 < link.sent, "{capacity}: {} of {} lost", link.lost, link.sent);
    }
}

/// Every packet is delayed by a random time: RTTs under load are several times that of a lone
/// packet.
#[test]
fn paths_with_heavy_jitter_are_utilized() {
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

/// Delays vary by more than the short queue holds. What an overflow loses is found over several
/// rounds, and RTTs exceed the shortest by far without a queue: the window must not collapse.
#[test]
fn a_short_queue_behind_jitter_does_not_starve_the_path() {
    for late in [12, 40] {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut link =
            Link { late: Some((1, late)), capacity: 67, ..Link::new(start, 24.0, 40, 0) };
        for second in 2..30 {
            let used = link.used(at(second), at(second + 1));
            assert!(used > 0.9, "up to {late} ms late, second {second}: {used}");
        }
        assert!(link.lost * 100 < link.sent, "{} of {} lost", link.lost, link.sent);
    }
}

#[test]
fn the_rate_is_measured() {
    let start = Instant::now();
    let mut link = Link::new(start, 33.0, 10, 0);
    link.run(start + Duration::from_secs(3));
    let found = link.congestion.rate().bits_per_second() / 1e6;
    assert!((31.0..35.0).contains(&found), "{found}");
    assert_eq!(link.congestion.base_rtt(), Some(link.delay + link.rate.time(PACKET.into())));
}

/// Acknowledgements wait behind the packets of the other direction, and then arrive at once.
#[test]
fn acknowledgements_that_come_together_do_not_raise_the_rate() {
    for held in [20, 40, 60, 75, 90, 110, 130] {
        let start = Instant::now();
        let held = Some(Duration::from_millis(held));
        let mut link = Link { held, ..Link::new(start, 1.0, 1, 0) };
        for tenth in 1..30 {
            link.run(start + Duration::from_millis(100 * tenth));
            let found = link.congestion.rate;
            assert!(found.bits_per_second() < 1.35e6, "{held:?}, {tenth}: {found:?}");
        }
    }
}

/// A host that stalls for tens of milliseconds lengthens RTTs and sends in bursts. The path is
/// unchanged, so its window must not grow beyond the queue.
#[test]
fn a_host_stall_does_not_enlarge_the_window() {
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
