//! DNS names of peers, resolved beside the event loop with what the host has for it (getaddrinfo(3)).

use std::{
    collections::BTreeMap,
    net::{IpAddr, ToSocketAddrs},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use hawser_netdev::poll::Waker;

use crate::config::ends::Remote;

/// Interval at which all names are resolved again. Caches of the host obey the records' TTL.
const REFRESH: Duration = Duration::from_secs(30);

/// Interval at which a name is resolved again whose peer does not answer, or which did not resolve.
const AGAIN: Duration = Duration::from_secs(2);

/// Names that are resolved at the same time: one that gets no answer must not hold up others.
const WORKERS: usize = 4;

/// Addresses of a name that are tried.
const MAX_ADDRESSES: usize = 16;

/// What is known of a name.
#[derive(Default)]
struct Entry {
    addresses: Vec<IpAddr>,
    /// Why the last attempt failed.
    error: Option<String>,
    asked: Option<Instant>,
    pending: bool,
}

type Answer = (String, Result<Vec<IpAddr>, String>);

/// The names that are wanted, and the threads that resolve them.
pub(super) struct Names {
    entries: BTreeMap<String, Entry>,
    waker: Waker,
    /// None until there is a name.
    workers: Option<(Sender<String>, Receiver<Answer>)>,
}

impl Names {
    pub(super) fn new(waker: Waker) -> Self {
        Self { entries: BTreeMap::new(), waker, workers: None }
    }

    /// Keeps exactly these names.
    pub(super) fn want<'a>(&mut self, remotes: impl Iterator<Item = &'a Remote>, now: Instant) {
        let names = remotes.filter_map(|remote| match remote {
            Remote::Name(name) => Some(name.clone()),
            _ => None,
        });
        let mut old = std::mem::take(&mut self.entries);
        self.entries = names
            .map(|name| {
                let entry = old.remove(&name).unwrap_or_default();
                (name, entry)
            })
            .collect();
        self.refresh(now);
    }

    /// Resolves what has not been resolved for long.
    pub(super) fn refresh(&mut self, now: Instant) {
        let names: Vec<_> = self
            .entries
            .iter()
            .map(|(name, entry)| {
                let pause = if entry.error.is_some() { AGAIN } else { REFRESH };
                (name.clone(), pause)
            })
            .collect();
        for (name, pause) in names {
            self.ask(&name, pause, now);
        }
    }

    /// Resolves the name of a peer that does not answer.
    pub(super) fn ask_again(&mut self, remote: &Remote, now: Instant) {
        if let Remote::Name(name) = remote {
            self.ask(name, AGAIN, now);
        }
    }

    /// Addresses of a name, or why there are none.
    pub(super) fn candidates(&self, remote: &Remote) -> Result<&[IpAddr], &str> {
        let Remote::Name(name) = remote else { return Ok(&[]) };
        let Some(entry) = self.entries.get(name) else { return Err("not asked yet") };
        match &entry.error {
            None if entry.asked.is_none() || entry.pending && entry.addresses.is_empty() => {
                Err("no answer yet")
            }
            None => Ok(&entry.addresses),
            Some(error) => Err(error),
        }
    }

    /// Takes over what was resolved; returns whether anything was.
    pub(super) fn take_answers(&mut self) -> bool {
        let Some((_, answers)) = &self.workers else { return false };
        let mut any = false;
        while let Ok((name, answer)) = answers.try_recv() {
            let Some(entry) = self.entries.get_mut(&name) else { continue };
            entry.pending = false;
            any = true;
            match answer {
                Ok(addresses) => (entry.addresses, entry.error) = (addresses, None),
                Err(error) => entry.error = Some(error),
            }
        }
        any
    }

    fn ask(&mut self, name: &str, pause: Duration, now: Instant) {
        let Some(entry) = self.entries.get_mut(name) else { return };
        let recent = |asked: Instant| now.saturating_duration_since(asked) < pause;
        if entry.pending || entry.asked.is_some_and(recent) {
            return;
        }
        let (questions, _) = self.workers.get_or_insert_with(|| start(&self.waker));
        entry.asked = Some(now);
        entry.pending = questions.send(name.to_owned()).is_ok();
    }
}

/// Starts the threads, which end with the sender of questions.
fn start(waker: &Waker) -> (Sender<String>, Receiver<Answer>) {
    let (questions, asked) = channel();
    let (answers, answered) = channel();
    let asked = Arc::new(Mutex::new(asked));
    for _ in 0..WORKERS {
        let (asked, answers, waker) = (Arc::clone(&asked), answers.clone(), waker.clone());
        let run = move || {
            while let Some(name) = next(&asked) {
                let answer = resolve(&name);
                if answers.send((name, answer)).is_err() {
                    return;
                }
                waker.wake();
            }
        };
        if let Err(error) = thread::Builder::new().name("resolver".into()).spawn(run) {
            tracing::warn!(%error, "cannot resolve names");
        }
    }
    (questions, answered)
}

fn next(asked: &Mutex<Receiver<String>>) -> Option<String> {
    asked.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

fn resolve(name: &str) -> Result<Vec<IpAddr>, String> {
    let found = (name, 0).to_socket_addrs().map_err(|error| error.to_string())?;
    let found = found.map(|address| address.ip());
    let usable = found.filter(|address| !address.is_unspecified() && !address.is_multicast());
    Ok(usable.take(MAX_ADDRESSES).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_resolved_beside_the_caller() {
        let waker = Waker::new().unwrap();
        let mut names = Names::new(waker);
        let [good, bad] = ["localhost", "no-such-name.invalid"].map(|n| Remote::Name(n.to_owned()));
        let now = Instant::now();
        names.want([&good, &bad].into_iter(), now);
        assert_eq!(names.candidates(&good), Err("no answer yet"));
        let pending = |names: &Names| names.entries.values().any(|entry| entry.pending);
        while pending(&names) && now.elapsed() < Duration::from_mins(1) {
            names.take_answers();
            thread::sleep(Duration::from_millis(1));
        }
        assert!(names.candidates(&good).unwrap().iter().all(IpAddr::is_loopback));
        assert!(names.candidates(&bad).is_err());
        names.ask_again(&good, now);
        assert!(!pending(&names), "not again at once");
        names.ask_again(&good, now + AGAIN);
        assert!(pending(&names));
        names.want(std::iter::empty(), now);
        assert!(names.entries.is_empty());
    }
}
