//! One trial: what sends, what counts, and the result of both.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

use anyhow::Context;
use hawser_bpf::reflector::Reflector;
use hawser_netdev::namespace::within;
use rustix::{
    process::setpriority_process,
    thread::{CpuSet, sched_setaffinity},
};

use crate::{
    clock,
    config::{Config, Send},
    open,
    plan::Planned,
    receiver::Receiver,
    report,
    result::LoadResult,
    sender::{Sender, Stop},
};

/// Both sides on their ports, from which they go when it is dropped.
pub(super) struct Trial {
    config: Config,
    receiver: Option<Box<dyn Receiver>>,
    sender: Option<(Vec<Planned>, Box<dyn Sender>)>,
    reflector: Option<Reflector>,
    /// Time the sender had a core, once it is done. What frames cause on their way through the kernel
    /// is part of it.
    cpu_ns: AtomicU64,
}

impl Trial {
    /// Opens everything, the receiving side first.
    pub(super) fn open(config: &Config) -> Result<Self, open::Error> {
        let receive = config.receive.as_ref();
        let receiver = receive.map(|receive| open::receiver(config, receive)).transpose()?;
        let sender = config.send.as_ref().map(|send| open::sender(config, send)).transpose()?;
        let reflector = config.reflect.as_ref().map(open::reflector).transpose()?;
        Ok(Self { config: config.clone(), receiver, sender, reflector, cpu_ns: AtomicU64::new(0) })
    }

    /// Sends all there is to send, and waits until it has arrived; without a sender, waits to be told
    /// to stop.
    pub(super) fn run(&self, stop: &Stop) -> anyhow::Result<()> {
        match (&self.config.send, &self.sender) {
            (Some(send), Some((_, sender))) => {
                in_place(send, || {
                    let before = clock::cpu_ns();
                    let result = sender.run(stop);
                    self.cpu_ns.store(clock::cpu_ns() - before, Ordering::Relaxed);
                    result
                })?;
                thread::sleep(Duration::from_millis(self.config.drain_ms));
            }
            _ => {
                while !stop.told() {
                    thread::sleep(Duration::from_millis(5));
                }
            }
        }
        Ok(())
    }

    /// The result so far.
    pub(super) fn result(&self) -> anyhow::Result<LoadResult> {
        let sender = self.sender.as_ref().map(|(planned, sender)| Ok((planned, sender.tally()?)));
        let sender = sender.transpose().map_err(|error: anyhow::Error| error)?;
        let receiver = self.receiver.as_ref().map(|receiver| receiver.tally()).transpose()?;
        let reflector = self.reflector.as_ref().map(Reflector::port).transpose()?;
        let mut result =
            report::result(&self.config, sender, receiver, reflector.map(|port| port.reflected));
        if let Some(sent) = &mut result.sent {
            sent.cpu_s = self.cpu_ns.load(Ordering::Relaxed) as f64 / 1e9;
        }
        Ok(result)
    }
}

/// Runs the sender in the namespace of its port and on its core.
fn in_place(
    send: &Send,
    run: impl FnOnce() -> anyhow::Result<()> + std::marker::Send,
) -> anyhow::Result<()> {
    let place = || {
        if let Some(cpu) = send.cpu {
            let mut set = CpuSet::new();
            set.set(cpu);
            sched_setaffinity(None, &set).with_context(|| format!("no core {cpu}"))?;
        }
        // A generator that waits for its core sends bursts. Not a real-time policy where it turns in
        // circles: the kernel then stops it for milliseconds, so that others are not starved.
        let _ = setpriority_process(None, -20);
        run()
    };
    // a thread of its own: neither namespace nor core is to stick to the caller's
    thread::scope(|scope| {
        let thread = scope.spawn(|| within(send.port.netns.as_deref(), place));
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?
}
