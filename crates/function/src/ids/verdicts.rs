//! Verdicts: decided by the policy, sent to the firewalls, stored across restarts.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use hawser_daemon::config::FieldError;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    block::{Block, State, Why},
    client::{Client, Order, Outcome},
    clock::now_us,
    document,
    policy::{Accusation, Decision, Finding, Heard, Policy},
    random::random,
};

/// How often blocks that have ended are forgotten, and changes are stored.
const PERIOD: Duration = Duration::from_millis(200);
/// Longest note of a rule, characters.
const NOTE_MAX: usize = 200;

/// Everything about verdicts.
pub(crate) struct Verdicts {
    policy: Mutex<Policy>,
    clients: Vec<Client>,
    file: PathBuf,
    storing: Mutex<()>,
    is_changed: AtomicBool,
    ended: AtomicBool,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    blocked: AtomicU64,
    renewed: AtomicU64,
    known: AtomicU64,
    noted: AtomicU64,
    allowed: AtomicU64,
    pardoned: AtomicU64,
    limited: AtomicU64,
    full: AtomicU64,
    taken_back: AtomicU64,
    expired: AtomicU64,
    confirmed: AtomicU64,
    troubles: AtomicU64,
    refused: AtomicU64,
}

/// What became of verdicts since the daemon started.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Report {
    /// Blocks now.
    blocks: u64,
    /// Verdicts that made a block.
    blocked: u64,
    /// Blocks that last longer, as packets of what they cover still come.
    renewed: u64,
    /// Verdicts on what is blocked already, or was while its packets came.
    known: u64,
    /// Verdicts that speak against their source alone: the flow is over, or there is too little evidence against it.
    noted: u64,
    /// Verdicts on sources on the allow list: without effect.
    allowed: u64,
    /// Verdicts on what an operator took back: without effect.
    pardoned: u64,
    /// Verdicts beyond the limit of a minute: without effect.
    limited: u64,
    /// Verdicts while there were too many blocks: without effect.
    full: u64,
    /// Blocks that operators took back.
    taken_back: u64,
    /// Blocks whose time was over.
    expired: u64,
    /// Orders that firewalls have confirmed.
    confirmed: u64,
    /// Failed attempts to reach a firewall. They are repeated.
    troubles: u64,
    /// Orders that firewalls have refused, or could not be told in time.
    refused: u64,
}

impl Verdicts {
    /// Reads the stored blocks, and starts the ways to the firewalls.
    pub(crate) fn open(settings: &document::Verdicts) -> io::Result<Arc<Self>> {
        let file = PathBuf::from(&settings.blocks_file);
        let mut stored = read(&file)?;
        let now_us = now_us();
        stored.retain(|block| block.expires_us > now_us);
        let pending = stored.iter().filter(|block| block.state == State::Pending);
        let pending: Vec<_> = pending.map(|block| block.id).collect();
        let policy = Policy::new(settings.clone(), stored, random()?);
        let mut failed = Ok(());
        let made = Arc::new_cyclic(|weak| {
            let firewalls = settings.firewalls.iter().enumerate();
            let clients = firewalls.map(|(at, firewall)| {
                let verdicts: Weak<Self> = Weak::clone(weak);
                Client::start(firewall.clone(), move |order, outcome| {
                    if let Some(verdicts) = verdicts.upgrade() {
                        verdicts.told(at, order, outcome);
                    }
                })
            });
            let clients = clients.collect::<io::Result<_>>().unwrap_or_else(|error| {
                failed = Err(error);
                Vec::new()
            });
            let (policy, storing) = (Mutex::new(policy), Mutex::default());
            let (is_changed, ended) = (AtomicBool::new(false), AtomicBool::new(false));
            let counters = Counters::default();
            Self { policy, clients, file, storing, is_changed, ended, counters }
        });
        failed?;
        for id in pending {
            made.send(id);
        }
        let keeper = Arc::clone(&made);
        thread::Builder::new().name("blocks".into()).spawn(move || keeper.keep())?;
        Ok(made)
    }

    /// Checks what is read when a verdict is sent: at the start, a mistake is still easy to mend.
    pub(crate) fn check(settings: &document::Verdicts) -> Result<(), FieldError> {
        for (at, firewall) in settings.firewalls.iter().enumerate() {
            let place = |field: &str| format!("ids.verdicts.firewalls[{at}].{field}");
            if let Some(tls) = &firewall.tls {
                super::client::trust(tls).map_err(|error| {
                    let expected = format!("certificates of authorities ({error})");
                    FieldError::new(&place("tls.authority"), tls.authority.as_str(), expected)
                })?;
            }
            fs::metadata(&firewall.token_file).map_err(|error| {
                let expected = format!("a file with a token ({error})");
                FieldError::new(&place("token_file"), firewall.token_file.as_str(), expected)
            })?;
        }
        let file = &settings.blocks_file;
        read(Path::new(file)).map(|_| ()).map_err(|error| {
            let expected = format!("a file with blocks ({error})");
            FieldError::new("ids.verdicts.blocks_file", file.as_str(), expected)
        })
    }

    /// Takes a malicious flow.
    pub(crate) fn accuse(&self, accused: Accusation, why: impl FnOnce() -> Why) -> Decision {
        let decision = self.policy().accuse(now_us(), accused, why);
        self.follow(decision)
    }

    /// Takes the verdict of another program.
    pub(crate) fn judge(&self, finding: &Finding, why: impl FnOnce() -> Why) -> Decision {
        let decision = self.policy().decide(now_us(), finding, why);
        self.follow(decision)
    }

    /// Takes packets of a flow: many of what is blocked keep it blocked.
    pub(crate) fn hear(&self, heard: &Heard) {
        let renewed = self.policy().hear(now_us(), heard);
        for id in renewed {
            self.follow(Decision::Renew(id));
        }
    }

    /// Counts a decision, and tells the firewalls.
    fn follow(&self, decision: Decision) -> Decision {
        let counters = &self.counters;
        let counter = match decision {
            Decision::Block(_) => &counters.blocked,
            Decision::Renew(_) => &counters.renewed,
            Decision::Known => &counters.known,
            Decision::Noted => &counters.noted,
            Decision::Allowed => &counters.allowed,
            Decision::Pardoned => &counters.pardoned,
            Decision::Limited => &counters.limited,
            Decision::Full => &counters.full,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        if let Decision::Block(id) | Decision::Renew(id) = decision {
            self.is_changed.store(true, Ordering::Relaxed);
            self.send(id);
        }
        decision
    }

    /// All blocks.
    pub(crate) fn blocks(&self) -> Vec<Block> {
        self.policy().blocks().cloned().collect()
    }

    /// The block of this number.
    pub(crate) fn block(&self, id: u64) -> Option<Block> {
        self.policy().block(id).cloned()
    }

    /// Takes a block back; false if there is none of this number.
    pub(crate) fn take_back(&self, id: u64) -> bool {
        let Some(block) = self.policy().take_back(now_us(), id) else { return false };
        self.is_changed.store(true, Ordering::Relaxed);
        self.counters.taken_back.fetch_add(1, Ordering::Relaxed);
        if block.state != State::DryRun {
            self.order(&Order { id, rule: None, expires_us: block.expires_us });
        }
        true
    }

    /// What became of verdicts.
    pub(crate) fn report(&self) -> Report {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        Report {
            blocks: self.policy().blocks().count() as u64,
            blocked: count(&counters.blocked),
            renewed: count(&counters.renewed),
            known: count(&counters.known),
            noted: count(&counters.noted),
            allowed: count(&counters.allowed),
            pardoned: count(&counters.pardoned),
            limited: count(&counters.limited),
            full: count(&counters.full),
            taken_back: count(&counters.taken_back),
            expired: count(&counters.expired),
            confirmed: count(&counters.confirmed),
            troubles: count(&counters.troubles),
            refused: count(&counters.refused),
        }
    }

    /// Stores the blocks a last time.
    pub(crate) fn stop(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.store();
    }

    fn policy(&self) -> MutexGuard<'_, Policy> {
        self.policy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, id: u64) {
        let order = {
            let policy = self.policy();
            let block = policy.block(id).filter(|_| !policy.is_dry_run());
            block.map(|block| {
                let note: String = note(block).chars().take(NOTE_MAX).collect();
                let rule = Some(block.target.rule(1, &note)); // its lifetime is set when it is sent
                Order { id, rule, expires_us: block.expires_us }
            })
        };
        if let Some(order) = order {
            self.order(&order);
        }
    }

    fn order(&self, order: &Order) {
        for client in &self.clients {
            if !client.send(order.clone()) {
                self.counters.refused.fetch_add(1, Ordering::Relaxed);
                self.policy().report(order.id, "too many orders wait".into(), true);
            }
        }
    }

    /// An outcome of the firewall at this place of the configuration.
    fn told(&self, firewall: usize, order: &Order, outcome: Outcome) {
        let counter = match &outcome {
            Outcome::Done => &self.counters.confirmed,
            Outcome::Trouble(_) => &self.counters.troubles,
            Outcome::Refused(_) => &self.counters.refused,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let mut policy = self.policy();
        match outcome {
            Outcome::Done => policy.confirm(now_us(), order.id, firewall),
            Outcome::Trouble(error) => policy.report(order.id, error, false),
            Outcome::Refused(error) => policy.report(order.id, error, true),
        }
        drop(policy);
        self.is_changed.store(true, Ordering::Relaxed);
    }

    fn keep(&self) {
        while !self.ended.load(Ordering::Relaxed) {
            thread::sleep(PERIOD);
            let expired = self.policy().expire(now_us());
            self.counters.expired.fetch_add(expired as u64, Ordering::Relaxed);
            if self.is_changed.swap(false, Ordering::Relaxed) || expired > 0 {
                self.store();
            }
        }
    }

    /// Stores the blocks. What was decided before the call is on the disk after it.
    pub(crate) fn store(&self) {
        let _storing = self.storing.lock().unwrap_or_else(PoisonError::into_inner);
        let blocks = self.blocks();
        if let Err(error) = write(&self.file, &blocks) {
            tracing::error!(%error, path = %self.file.display(), "blocks are not stored");
        }
    }
}

/// What the firewall's rule says of itself.
fn note(block: &Block) -> String {
    let score = block.why.score.map(|score| format!(", score {score:.3}")).unwrap_or_default();
    format!("ids: flow {} by {}{score}", block.flow, block.why.by)
}

fn read(file: &Path) -> io::Result<Vec<Block>> {
    match fs::read(file) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn write(file: &Path, blocks: &[Block]) -> io::Result<()> {
    let beside = file.with_extension("new");
    let mut made = File::create(&beside)?;
    made.write_all(&serde_json::to_vec(blocks)?)?;
    made.sync_all()?;
    fs::rename(beside, file)
}
