use std::net::SocketAddr;

use proptest::prelude::*;

use super::*;

const TICK: Duration = Duration::from_millis(50);

fn path(n: u8) -> Path {
    Path {
        local: Some([198, 18, 1, n].into()),
        remote: Some([198, 18, 2, n].into()),
        ..Path::default()
    }
}

/// Subflow of a path after `delivered` segments.
fn subflow(n: u8, unacked: u32, delivered: u32, rtt_ms: u64) -> Subflow {
    let (local, remote) = path(n).ends().unwrap();
    Subflow {
        local: SocketAddr::new(local, 1024),
        remote: SocketAddr::new(remote, 0x2000),
        established: true,
        unacked,
        delivered,
        lost: 0,
        received: 0,
        rtt: Duration::from_millis(rtt_ms),
        min_rtt: Duration::from_millis(rtt_ms.min(10)),
    }
}

fn close(n: u8) -> Action {
    let Subflow { local, remote, .. } = subflow(n, 0, 0, 0);
    Action::Close(Ends { local, remote })
}

/// A path manager polled every tick, and its actions with milliseconds since the start.
struct Run {
    path_manager: PathManager,
    start: Instant,
    now: Instant,
    connects: bool,
    /// Whether probes are answered, at once.
    reachable: bool,
    actions: Vec<(u128, Action)>,
}

impl Run {
    fn new(paths: u8) -> Self {
        let start = Instant::now();
        let paths: Vec<_> = (0..paths).map(path).collect();
        let path_manager = PathManager::new(&paths, start);
        Self {
            path_manager,
            start,
            now: start,
            connects: true,
            reachable: true,
            actions: Vec::new(),
        }
    }

    /// Polls for this time; `subflows` returns what the kernel reports at each poll.
    fn see(&mut self, time: Duration, mut subflows: impl FnMut(u32) -> Vec<Subflow>) -> &mut Self {
        for look in 0..u32::try_from(time.as_millis() / TICK.as_millis()).unwrap() {
            self.now += TICK;
            let actions = self.path_manager.poll(self.now, &subflows(look), self.connects);
            let at = (self.now - self.start).as_millis();
            for action in actions {
                let action = match action {
                    Action::Probe(n) if self.reachable => {
                        self.path_manager.answered(self.now, n, true).unwrap()
                    }
                    action => action,
                };
                self.actions.push((at, action));
            }
        }
        self
    }

    fn times(&self, wanted: Action) -> Vec<u128> {
        self.actions.iter().filter(|(_, action)| *action == wanted).map(|(at, _)| *at).collect()
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn paths_without_a_subflow_get_one_at_once() {
    let mut run = Run::new(3);
    run.see(TICK, |_| vec![subflow(0, 0, 0, 10)]);
    assert_eq!(run.actions, [(50, Action::Join(1)), (50, Action::Join(2))]);
    run.see(SECOND, |_| (0..3).map(|n| subflow(n, 0, 0, 10)).collect());
    assert_eq!(run.actions.len(), 2);
    assert_eq!(run.path_manager.present(), 3);
}

#[test]
fn who_listens_begins_none() {
    let mut run = Run::new(3);
    run.connects = false;
    run.see(SECOND, |_| vec![subflow(0, 0, 0, 10)]);
    assert_eq!(run.actions, []);
}

#[test]
fn a_refused_subflow_is_tried_again_and_again() {
    let mut run = Run::new(2);
    run.see(10 * SECOND, |_| vec![subflow(0, 0, 0, 10)]);
    let tries = run.times(Action::Join(1));
    assert!((5..10).contains(&tries.len()), "{tries:?}");
    assert!(tries.windows(2).all(|pair| pair[1] - pair[0] <= 2200), "{tries:?}");
}

#[test]
fn no_subflow_is_begun_where_no_probe_comes_through() {
    let mut run = Run::new(2);
    run.reachable = false;
    run.see(10 * SECOND, |_| vec![subflow(0, 0, 0, 10)]);
    assert_eq!(run.times(Action::Join(1)), []);
    let probes = run.times(Action::Probe(1));
    assert!((4..10).contains(&probes.len()), "{probes:?}");
    assert_eq!(run.path_manager.answered(run.now, 0, true), None);
    run.reachable = true;
    run.see(3 * SECOND + TICK, |_| vec![subflow(0, 0, 0, 10)]);
    assert!(!run.times(Action::Join(1)).is_empty());
}

#[test]
fn a_refused_probe_is_sent_again() {
    let mut run = Run::new(2);
    run.reachable = false;
    for _ in 0..20 {
        run.see(TICK, |_| vec![subflow(0, 0, 0, 10)]);
        assert_eq!(run.path_manager.answered(run.now, 1, false), None);
    }
    assert_eq!(run.times(Action::Probe(1)), [50, 150, 350, 750]);
}

#[test]
fn a_subflow_that_is_not_answered_is_closed_and_tried_again() {
    let mut run = Run::new(2);
    let asked = Subflow { established: false, ..subflow(1, 1, 0, 0) };
    run.see(11 * SECOND, |_| vec![subflow(0, 0, 0, 10), asked]);
    assert_eq!(run.times(close(1)), [10_050]);
}

#[test]
fn a_subflow_on_which_nothing_arrives_is_closed() {
    let mut run = Run::new(2);
    run.see(SECOND, |look| vec![subflow(0, 9, look, 10), subflow(1, 9, look, 10)]);
    run.see(SECOND, |look| vec![subflow(0, 9, 100 + look, 10), subflow(1, 9, 19, 10)]);
    let times = run.times(close(1));
    assert_eq!(times[..1], [1300], "{:?}", run.actions);
    assert!(!run.path_manager.stalled());
}

#[test]
fn a_subflow_on_which_nothing_arrives_but_here_is_closed_later() {
    let mut run = Run::new(2);
    run.see(SECOND, |look| vec![subflow(0, 9, look, 10), subflow(1, 9, look, 10)]);
    run.see(2 * SECOND, |look| {
        let one_way = Subflow { received: look, ..subflow(1, 9, 19, 10) };
        vec![subflow(0, 9, 100 + look, 10), one_way]
    });
    let times = run.times(close(1));
    assert_eq!(times[..1], [1750], "{:?}", run.actions);
}

#[test]
fn a_subflow_on_which_nothing_arrives_is_closed_later_where_packets_are_always_lost() {
    let mut run = Run::new(2);
    let lossy = |n, arrived: u32| Subflow { lost: arrived / 10, ..subflow(n, 9, arrived, 10) };
    run.see(4 * SECOND, |look| vec![lossy(0, 5 * look), lossy(1, 5 * look)]);
    run.see(2 * SECOND, |look| vec![lossy(0, 400 + 5 * look), lossy(1, 395)]);
    let times = run.times(close(1));
    assert_eq!(times[..1], [4850], "{:?}", run.actions);
}

#[test]
fn a_path_that_loses_and_carries_next_to_nothing_is_not_given_more_time() {
    let mut run = Run::new(2);
    let lossy = |n, arrived: u32| Subflow { lost: arrived / 10, ..subflow(n, 9, arrived, 10) };
    run.see(8 * SECOND, |look| vec![lossy(0, 50 * look), lossy(1, 5 * look)]);
    run.see(SECOND, |look| vec![lossy(0, 8000 + 50 * look), lossy(1, 795)]);
    assert_eq!(run.times(close(1))[..1], [8300], "{:?}", run.actions);
}

#[test]
fn what_is_sent_again_on_a_path_that_is_cut_is_no_usual_loss() {
    let mut run = Run::new(2);
    run.see(SECOND, |look| vec![subflow(0, 9, look, 10), subflow(1, 9, look, 10)]);
    run.see(SECOND, |look| {
        let cut = Subflow { lost: 3 * look, ..subflow(1, 9, 19, 10) };
        vec![subflow(0, 9, 100 + look, 10), cut]
    });
    assert_eq!(run.times(close(1))[..1], [1300], "{:?}", run.actions);
}

#[test]
fn an_idle_subflow_stays() {
    let mut run = Run::new(2);
    run.see(9 * SECOND, |look| vec![subflow(0, 9, look, 10), subflow(1, 0, 19, 10)]);
    assert_eq!(run.actions, []);
}

#[test]
fn the_last_one_stays_and_the_group_is_left() {
    let mut run = Run::new(2);
    run.see(7 * TICK, |_| vec![subflow(0, 9, 0, 10), subflow(1, 9, 0, 10)]);
    assert_eq!(run.actions, [(350, close(1))]);
    run.see(8 * TICK, |_| vec![subflow(0, 9, 0, 10)]);
    assert_eq!(run.actions.len(), 1);
    assert!(run.path_manager.stalled());
    run.see(TICK, |_| vec![subflow(0, 9, 1, 10)]);
    assert!(!run.path_manager.stalled());
}

#[test]
fn a_group_is_left_before_any_of_its_subflows_is_closed() {
    let mut run = Run::new(2);
    let silent = |_| vec![subflow(0, 9, 0, 10), subflow(1, 9, 0, 10)];
    run.see(4 * TICK, silent);
    assert!(!run.path_manager.stalled());
    run.see(TICK, silent);
    assert!(run.path_manager.stalled());
    assert_eq!(run.actions, []);
    run.see(TICK, |_| vec![subflow(0, 9, 0, 10), subflow(1, 9, 1, 10)]);
    assert!(!run.path_manager.stalled());
}

#[test]
fn a_long_path_is_given_its_time() {
    let mut run = Run::new(2);
    let far = |look: u32| Subflow {
        min_rtt: Duration::from_millis(600),
        ..subflow(1, 9, look / 13, 650)
    };
    run.see(9 * SECOND, |look| vec![subflow(0, 9, look, 10), far(look)]);
    assert_eq!(run.actions, []);
}

#[test]
fn a_path_that_waits_long_for_little_is_closed_but_not_one_that_carries() {
    for (share, closed) in [(1, true), (10, false)] {
        let mut run = Run::new(2);
        run.see(3 * SECOND, |look| {
            vec![subflow(0, 9, look * 20, 20), subflow(1, 9, look * share, 600)]
        });
        assert_eq!(!run.times(close(1)).is_empty(), closed, "{share}: {:?}", run.actions);
    }
}

#[test]
fn a_path_that_waits_long_and_holds_up_the_others_is_closed() {
    let mut run = Run::new(2);
    run.see(2 * SECOND, |look| vec![subflow(0, 9, look * 20, 20), subflow(1, 9, look, 20)]);
    run.see(2 * SECOND, |look| {
        vec![subflow(0, 0, 800 + look / 8, 20), subflow(1, 9, 40 + look / 8, 600)]
    });
    assert!(run.times(close(1))[0] <= 3000, "{:?}", run.actions);
}

#[test]
fn a_path_that_carries_the_other_way_stays() {
    let mut run = Run::new(2);
    run.see(3 * SECOND, |look| {
        let both = [subflow(0, 9, look, 20), subflow(1, 9, look / 9, 600)];
        both.map(|subflow| Subflow { received: look * 20, ..subflow }).to_vec()
    });
    assert_eq!(run.actions, []);
}

#[test]
fn pauses_grow_while_a_path_is_closed_again_and_again() {
    let mut run = Run::new(2);
    let mut joined = true;
    for look in 0..3000 {
        // every join succeeds, and nothing is ever delivered
        let stuck = joined.then(|| subflow(1, 9, 0, 10));
        let before = run.actions.len();
        run.see(TICK, |_| [Some(subflow(0, 9, look, 10)), stuck].into_iter().flatten().collect());
        for (_, action) in &run.actions[before..] {
            joined = *action == Action::Join(1);
        }
    }
    let tries = run.times(Action::Join(1));
    let pauses: Vec<_> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.is_sorted(), "{pauses:?}");
    assert!((30_000..31_000).contains(pauses.last().unwrap()), "{pauses:?}");
}

#[test]
fn the_same_path_may_be_there_twice() {
    let mut run = Run::new(1);
    run.path_manager = PathManager::new(&[path(0), path(0)], run.start);
    run.see(TICK, |_| vec![subflow(0, 0, 0, 10)]);
    assert_eq!(run.actions, [(50, Action::Join(1))]);
    run.see(SECOND, |_| vec![subflow(0, 0, 0, 10), subflow(0, 0, 0, 10)]);
    assert_eq!(run.actions.len(), 1);
}

#[test]
fn a_process_that_waited_blames_no_path() {
    let mut run = Run::new(2);
    let both = || vec![subflow(0, 9, 0, 10), subflow(1, 9, 0, 10)];
    run.see(TICK, |_| both());
    run.now += 5 * SECOND;
    run.see(TICK, |_| both());
    assert_eq!(run.actions, []);
}

proptest! {
    /// Whatever the kernel reports, one established subflow is never closed.
    #[test]
    fn one_subflow_always_stays(
        looks in proptest::collection::vec(
            proptest::collection::vec((any::<bool>(), 0..9_u32, 0..3_u32, 1..2000_u64), 4), 1..100,
        ),
    ) {
        let mut run = Run::new(4);
        for look in looks {
            let flows: Vec<_> = (0..4).zip(look).map(|(n, (established, unacked, more, rtt))| {
                Subflow { established, ..subflow(n, unacked, more, rtt) }
            }).collect();
            let established_subflows = flows.iter().filter(|flow| flow.established).count();
            run.now += TICK;
            let actions = run.path_manager.poll(run.now, &flows, true);
            let closed = |flow: &&Subflow| {
                let ends = Ends { local: flow.local, remote: flow.remote };
                flow.established && actions.contains(&Action::Close(ends))
            };
            let closed = flows.iter().filter(closed).count();
            prop_assert!(established_subflows == 0 || closed < established_subflows);
        }
    }
}

#[test]
fn a_path_that_moves_is_joined_at_once_and_then_left() {
    let mut run = Run::new(1);
    run.see(5 * TICK, |_| vec![subflow(0, 0, 0, 10)]);
    run.path_manager.set_paths(&[path(1)], run.now);
    run.actions.clear();
    run.see(1 * TICK, |_| vec![subflow(0, 0, 0, 10)]);
    let actions: Vec<_> = run.actions.drain(..).map(|(_, action)| action).collect();
    assert_eq!(actions, [Action::Join(0)], "the old one stays until then");
    run.see(2 * TICK, |_| vec![subflow(0, 0, 0, 10), subflow(1, 0, 0, 10)]);
    let actions: Vec<_> = run.actions.drain(..).map(|(_, action)| action).collect();
    assert_eq!(actions, [close(0)]);
}

#[test]
fn addresses_that_were_left_are_forgotten() {
    let mut run = Run::new(1);
    for n in 1..100 {
        run.see(2 * TICK, |_| vec![subflow(n - 1, 0, 0, 10)]);
        run.path_manager.set_paths(&[path(n)], run.now);
        // The kernel has closed the old subflow with its address.
        run.see(2 * TICK, |_| vec![subflow(n, 0, 0, 10)]);
    }
    assert_eq!(run.path_manager.left, []);
}

#[test]
fn all_subflows_of_an_address_that_was_left_are_closed() {
    let mut run = Run::new(1);
    run.see(5 * TICK, |_| vec![subflow(0, 0, 0, 10)]);
    run.path_manager.set_paths(&[path(1)], run.now);
    run.actions.clear();
    let second =
        Subflow { local: SocketAddr::new([198, 18, 1, 0].into(), 1025), ..subflow(0, 0, 0, 10) };
    run.see(1 * TICK, |_| vec![subflow(0, 0, 0, 10), second, subflow(1, 0, 0, 10)]);
    run.see(1 * TICK, |_| vec![subflow(0, 0, 0, 10), second, subflow(1, 0, 0, 10)]);
    let closed = |action: &Action| matches!(action, Action::Close(_));
    assert_eq!(run.actions.iter().filter(|(_, action)| closed(action)).count(), 2);
}

#[test]
fn who_listens_leaves_an_address_only_for_another() {
    let mut run = Run::new(1);
    run.connects = false;
    run.see(5 * TICK, |_| vec![subflow(0, 0, 0, 10)]);
    run.path_manager.set_paths(&[path(1)], run.now);
    run.see(5 * TICK, |_| vec![subflow(0, 0, 0, 10)]);
    assert_eq!(run.actions, [], "it is the only one");
    run.see(1 * TICK, |_| vec![subflow(0, 0, 0, 10), subflow(1, 0, 0, 10)]);
    let actions: Vec<_> = run.actions.drain(..).map(|(_, action)| action).collect();
    assert_eq!(actions, [close(0)]);
}

#[test]
fn nothing_is_joined_without_an_address() {
    let mut run = Run::new(2);
    run.path_manager.set_paths(&[path(0), Path { local: None, ..path(1) }], run.now);
    run.see(20 * TICK, |_| vec![subflow(0, 0, 0, 10)]);
    assert_eq!(run.actions, []);
}

#[test]
fn subflows_from_unknown_addresses_are_watched_too() {
    let mut run = Run::new(1);
    run.connects = false;
    run.path_manager.set_paths(&[Path { remote: None, ..path(0) }], run.now);
    run.see(3 * TICK, |_| vec![subflow(7, 0, 0, 10), subflow(8, 1, 0, 10)]);
    assert_eq!(run.path_manager.present(), 2);
    run.see(20 * TICK, |_| vec![subflow(7, 0, 0, 10), subflow(8, 1, 0, 10)]);
    assert_eq!(run.actions.first().map(|(_, action)| *action), Some(close(8)), "it is stuck");
    run.see(2 * TICK, |_| vec![subflow(7, 0, 0, 10)]);
    assert_eq!(run.path_manager.present(), 1);
}
