//! The multipath agent with the `quic` transport: one event loop between the TUN device and one QUIC
//! connection for each member path of each group of each peer.

mod arena;
mod connect;
mod controller;
mod forward;
mod group;
pub(super) mod lane;
mod link;
mod recover;
mod report;
mod settings;
#[cfg(test)]
mod simulation;
mod socket;
mod train;

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    time::{Duration, Instant},
};

use hawser_netdev::{
    poll::{Interest, Poller},
    tun::Tun,
};
use hawser_tls::Identity;
use hawser_wire::{join::Join, label::wide};
use quinn_proto::ConnectionHandle;

use self::{
    arena::Arena,
    group::Group,
    lane::Lane,
    link::Link,
    settings::Settings,
    socket::{Place, Purpose, Room, Socket},
    train::Train,
};
use super::{
    command::{Apply, Command, Inbox},
    config::{self, Config},
    counters::{StrangerCounters, TunCounters},
    placement::{Carriers, Places},
    table::Table,
};

/// Largest inner packet that Ethernet paths take whole.
pub(super) const MTU: u16 = settings::INNER_MTU;

/// How often timers are looked at that are in no hurry.
const TICK: Duration = Duration::from_millis(50);

const TUN: u64 = u64::MAX;
const INBOX: u64 = u64::MAX - 1;

/// Another branch.
struct Peer {
    config: config::Peer,
    we_connect: bool,
    groups: BTreeMap<u8, Group>,
}

impl Carriers for Peer {
    type Group = Group;

    fn id(&self) -> u16 {
        self.config.id
    }

    fn groups(&self) -> impl Iterator<Item = &Group> + Clone {
        self.groups.values()
    }
}

/// The agent: all that its event loop owns.
pub(super) struct Quic {
    config: Config,
    settings: Settings,
    /// Ties the paths of a group together, and tells the peer that it has begun anew: with the number of the configuration
    /// that brought it.
    session: u128,
    configurations: u128,
    started: Instant,
    tun: Tun,
    poller: Poller,
    inbox: Inbox,
    peers: BTreeMap<u16, Peer>,
    places: Places,
    table: Table,
    /// Number of the peer behind each index of the table.
    ids: Vec<u16>,
    sockets: BTreeMap<usize, Socket>,
    next_socket: usize,
    counters: TunCounters,
    strangers: StrangerCounters,
    room: Room,
    /// Where packets of the device are read to, and made ready to be sent.
    read: Box<[u8]>,
    arena: Arena,
    transmit: Vec<u8>,
    train: Train,
    join: Join,
    /// Where TCP of some traffic is terminated.
    lane: Option<Lane>,
    stopping: bool,
}

impl Quic {
    /// Takes over a TUN device; opens the sockets.
    pub(super) fn new(
        config: Config,
        identity: &Identity,
        session: [u8; 16],
        tun: Tun,
        inbox: Inbox,
    ) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add(&tun, TUN, Interest::Read)?;
        poller.add(&inbox.waker, INBOX, Interest::Read)?;
        let used = config.document.transport.lane.is_used();
        let settings = Settings::new(identity, &config).map_err(io::Error::other)?;
        let lane = used.then(|| Lane::new(&config)).transpose()?;
        if let Some(lane) = &lane {
            for (token, listener) in lane.listeners() {
                poller.add(listener, token, Interest::Read)?;
            }
        }
        let mut this = Self {
            settings,
            session: u128::from_be_bytes(session),
            configurations: 0,
            started: Instant::now(),
            tun,
            poller,
            inbox,
            peers: BTreeMap::new(),
            places: Places::new(config.document.placement, Instant::now()),
            table: Table::default(),
            ids: Vec::new(),
            sockets: BTreeMap::new(),
            next_socket: 0,
            counters: TunCounters::default(),
            strangers: StrangerCounters::default(),
            room: Room::new(),
            read: vec![0; hawser_netdev::tun::MAX_PACKET_LEN].into_boxed_slice(),
            arena: Arena::default(),
            transmit: Vec::new(),
            train: Train::default(),
            join: Join::default(),
            lane,
            stopping: false,
            config: config.clone(),
        };
        this.adopt(config)?;
        Ok(this)
    }

    /// Carries packets until told to stop.
    pub(super) fn run(mut self) -> io::Result<()> {
        let mut ready = Vec::new();
        let mut next_tick = Instant::now();
        let mut next_look = next_tick;
        while !self.stopping {
            let now = Instant::now();
            if now >= next_tick {
                self.tick(now);
                self.tick_lane(now);
                self.places.sweep(now, TICK);
                next_tick = now + TICK;
            }
            let wake = self.next_timeout().unwrap_or(next_tick).min(next_tick).min(next_look);
            self.poller.wait(wake.saturating_duration_since(Instant::now()), &mut ready)?;
            let now = Instant::now();
            for event in &ready {
                match event.token {
                    TUN => self.forward(now)?,
                    INBOX => self.obey(now),
                    lane::LISTENER | lane::LISTENER6 => self.accept(event.token, now),
                    lane::FLOWS.. => self.flow_event(*event),
                    socket => self.receive(usize::try_from(socket).unwrap_or(usize::MAX), now),
                }
            }
            self.run_timers(now);
            if now >= next_look {
                next_look = self.recover_silent(now);
            }
            self.attend_lane(now);
            self.transmit(now);
            while self.attend_lane(now) {
                self.transmit(now);
            }
        }
        self.close(Instant::now());
        Ok(())
    }

    /// When something is due.
    fn next_timeout(&mut self) -> Option<Instant> {
        let links = self.sockets.values_mut().flat_map(|socket| socket.links.values_mut());
        let connections = links.filter_map(|link| link.connection.poll_timeout()).min();
        let groups = self.peers.values().flat_map(|peer| peer.groups.values());
        let gaps = groups.filter_map(|group| group.resequencer.poll_timeout()).min();
        connections.into_iter().chain(gaps).min()
    }

    fn run_timers(&mut self, now: Instant) {
        for socket in self.sockets.values_mut() {
            for link in socket.links.values_mut() {
                if link.connection.poll_timeout().is_some_and(|at| at <= now) {
                    link.connection.handle_timeout(now);
                    link.active = true;
                }
            }
        }
        self.expire(now);
    }

    fn obey(&mut self, now: Instant) {
        self.inbox.waker.clear();
        while let Some(command) = self.inbox.next() {
            // Who asked may have gone away meanwhile.
            match command {
                Command::Status(reply) => drop(reply.send(self.status(now))),
                Command::Counters(reply) => drop(reply.send(self.counters())),
                Command::Apply(apply, reply) => drop(reply.send(self.apply(*apply, now))),
                Command::Stop => self.stopping = true,
            }
        }
    }

    fn apply(&mut self, apply: Apply, now: Instant) -> Result<(), String> {
        let Apply { config, identity } = apply;
        if let Some(identity) = &identity {
            let settings = Settings::new(identity, &config);
            self.settings = settings.map_err(|error| error.to_string())?;
        }
        self.adopt(config).map_err(|error| error.to_string())?;
        self.end_revoked(now);
        Ok(())
    }

    /// Takes on a configuration; connections of groups that are the same in both stay. On an error
    /// nothing has changed.
    fn adopt(&mut self, config: Config) -> io::Result<()> {
        let wanted = wanted_sockets(&config);
        let mut new = Vec::new();
        for (address, purpose) in &wanted {
            if !self.has_socket(*address, *purpose) {
                new.push(self.open(*address, *purpose)?);
            }
        }
        let own = config.document.id;
        let queue = u64::from(config.document.queue_bytes);
        let how = &config.document.transport;
        self.configurations += 1;
        let session = (self.session ^ self.configurations).to_be_bytes();
        let mut old = std::mem::take(&mut self.peers);
        for peer in &config.peers {
            let mut groups = old.remove(&peer.id).map(|peer| peer.groups).unwrap_or_default();
            groups.retain(|_, group| peer.groups.contains(&group.config));
            for group in &peer.groups {
                let new = || Group::new(group.clone(), session, queue, how);
                let known = groups.entry(group.id).or_insert_with(new);
                known.backlog.set_limit(queue);
            }
            let peer = Peer { config: peer.clone(), we_connect: own < peer.id, groups };
            self.peers.insert(peer.config.id, peer);
        }
        let keeps = |socket: &Socket| wanted.contains(&(socket.address, socket.purpose));
        self.sockets.retain(|_, socket| keeps(socket));
        for socket in new {
            self.poller.add(&socket, self.next_socket as u64, Interest::Read)?;
            self.sockets.insert(self.next_socket, socket);
            self.next_socket += 1;
        }
        self.forget_links();
        self.forget_flows();
        self.places.set_policy(config.document.placement);
        self.table = Table::new(config.peers.iter());
        self.ids = config.peers.iter().map(|peer| peer.id).collect();
        self.config = config;
        Ok(())
    }

    fn has_socket(&self, address: SocketAddr, purpose: Purpose) -> bool {
        self.sockets.values().any(|known| (known.address, known.purpose) == (address, purpose))
    }

    fn group_mut(&mut self, peer: u16, group: u8) -> Option<&mut Group> {
        self.peers.get_mut(&peer)?.groups.get_mut(&group)
    }

    fn link_mut(&mut self, socket: usize, handle: ConnectionHandle) -> Option<&mut Link> {
        self.sockets.get_mut(&socket)?.links.get_mut(&handle)
    }
}

/// The sockets of a configuration: one where others connect to us, one for each path that we connect. Their
/// ports are the path's label.
fn wanted_sockets(config: &Config) -> Vec<(SocketAddr, Purpose)> {
    let own = config.document.id;
    let mut wanted = Vec::new();
    for peer in &config.peers {
        for group in &peer.groups {
            for (member, path) in (0_u8..).zip(&group.paths) {
                let entry = if own < peer.id {
                    let place = Place { peer: peer.id, group: group.id, member };
                    let remote = wide::listener_port(peer.id, group.id);
                    let remote = SocketAddr::new(path.remote, remote);
                    let address =
                        SocketAddr::new(path.local, wide::connector_port(own, member + 1));
                    (address, Purpose::Makes { place, remote })
                } else {
                    let port = wide::listener_port(own, group.id);
                    (SocketAddr::new(path.local, port), Purpose::Takes { group: group.id })
                };
                if !wanted.contains(&entry) {
                    wanted.push(entry);
                }
            }
        }
    }
    wanted
}
