//! One trial: sender, receiver, reflector, and their result.

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

/// An open trial. Dropping it detaches all programs from their ports.
pub(super) struct Trial {
    config: Config,
    receiver: Option<Box<dyn Receiver>>,
    sender: Option<(Vec<Planned>, Box<dyn Sender>)>,
    reflector: Option<Reflector>,
    /// CPU time of the sender, ns, once it is done. It includes kernel processing of the frames.
    cpu_ns: AtomicU64,
}

impl Trial {
    /// Opens receiver, sender and reflector, in this order.
    pub(super) fn open(config: &Config) -> Result<Self, open::Error> {
        let receive = config.receive.as_ref();
        let receiver = receive.map(|receive| open::receiver(config, receive)).transpose()?;
        let sender = config.send.as_ref().map(|send| open::sender(config, send)).transpose()?;
        let reflector = config.reflect.as_ref().map(open::reflector).transpose()?;
        Ok(Self { config: config.clone(), receiver, sender, reflector, cpu_ns: AtomicU64::new(0) })
    }

    /// Sends all frames, and waits for them to arrive. Without a sender, waits until `stop` is set.
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
                while !stop.is_set() {
                    thread::sleep(Duration::from_millis(5));
                }
            }
        }
        Ok(())
    }

    /// The current result.
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

/// Runs the sender in the namespace of its port and on its CPU.
fn in_place(
    send: &Send,
    run: impl FnOnce() -> anyhow::Result<()> + std::marker::Send,
) -> anyhow::Result<()> {
    let place = || {
        if let Some(cpu) = send.cpu {
            let mut set = CpuSet::new();
            set.set(cpu);
            sched_setaffinity(None, &set).with_context(|| format!("no CPU {cpu}"))?;
        }
        // A generator that waits for a CPU sends bursts. A busy-waiting one must not have a real-time policy:
        // the kernel throttles it for 50 ms of each second.
        let _ = setpriority_process(None, -20);
        run()
    };
    // In a thread of its own, so that the caller keeps its namespace and CPU affinity.
    thread::scope(|scope| {
        let thread = scope.spawn(|| within(send.port.netns.as_deref(), place));
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?
}
