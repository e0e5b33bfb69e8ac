//! State and configuration.

use std::{
    collections::{BTreeMap, VecDeque},
    convert::Infallible,
    time::Instant,
};

use hawser_tls::Identity;
use hawser_wire::flow::mix;
use quinn_proto::{ConnectionError, ConnectionHandle, crypto::rustls::NoInitialCipherSuite};

use super::{
    endpoint::{Endpoint, Owner, Purpose, Socket},
    error_limit::ErrorLimit,
    event::Event,
    introductions::Rendezvous,
    request::Open,
    trains::Trains,
};
use crate::{
    arena::Arena,
    config::{Config, Options},
    counters::UnauthenticatedCounters,
    group::{Group, Incoming},
    limits::Limits,
    path::{CLOSED, GsoBatch, Link, PathId, Settings},
    peers::{Peer, Peers},
    proxy::{Proxy, Stream},
    reach::Reach,
    retry::Retry,
};

/// Path groups to all peers. `S` is a TCP connection terminated by the proxy.
pub struct Tunnel<S> {
    pub(super) config: Config,
    pub(super) settings: Settings,
    /// Combined with the number of the configuration that created a group, it identifies the
    /// group's session: a new one tells the peer that sequence numbers start again.
    session: u128,
    configurations: u128,
    /// Whether connections have yet to be checked against the identity.
    identity_changed: bool,
    /// State of [`Tunnel::random`].
    random: u64,
    pub(super) peers: Peers<Group>,
    pub(super) reach: Reach,
    pub(super) limits: Limits,
    /// By the number of their socket.
    pub(super) endpoints: BTreeMap<usize, Endpoint>,
    /// Connections that belong to no path yet, or to none any more.
    pub(super) unowned: BTreeMap<(usize, ConnectionHandle), Link>,
    pub(super) proxy: Option<Proxy<S>>,
    pub(super) unauthenticated: UnauthenticatedCounters,
    /// Memory for packets of the device.
    pub(super) arena: Arena,
    pub(super) batch: GsoBatch,
    pub(super) error_limit: ErrorLimit,
    /// See [`Tunnel::mtu`].
    mtu: Option<u16>,
    /// Connections that may have something to send.
    pub(super) send_queue: VecDeque<(usize, ConnectionHandle)>,
    /// Datagrams of endpoints outside connections: socket, addresses, bytes.
    pub(super) responses: VecDeque<(usize, quinn_proto::Transmit, Vec<u8>)>,
    pub(super) response: Vec<u8>,
    /// Paths on which datagrams may have arrived.
    pub(super) unread: VecDeque<PathId>,
    pub(super) delivered: VecDeque<Incoming>,
    pub(super) rendezvous: Rendezvous,
    pub(super) trains: Trains,
    pub(super) events: VecDeque<Event>,
    pub(super) opens: VecDeque<Open>,
    pub(super) next_tick: Instant,
    pub(super) next_liveness_check: Instant,
    pub(super) next_second: Instant,
}

impl<S: Stream> Tunnel<S> {
    /// A tunnel without peers; [`Self::configure`] adds them. `session` must never have been used
    /// before.
    ///
    /// # Errors
    /// QUIC cannot use the identity.
    pub fn new(
        config: &Config,
        identity: &Identity,
        session: [u8; 16],
        now: Instant,
    ) -> Result<Self, NoInitialCipherSuite> {
        Ok(Self {
            settings: Settings::new(identity, config.options)?,
            session: u128::from_be_bytes(session),
            configurations: 0,
            identity_changed: false,
            random: u64::from_be_bytes(*session.last_chunk().unwrap_or(&[0; 8])),
            peers: Peers::new(config.placement, now),
            reach: Reach::default(),
            limits: Limits::default(),
            endpoints: BTreeMap::new(),
            unowned: BTreeMap::new(),
            proxy: config.options.proxy.then(|| Proxy::new(config.own)),
            unauthenticated: UnauthenticatedCounters::default(),
            arena: Arena::default(),
            batch: GsoBatch::default(),
            error_limit: ErrorLimit::default(),
            mtu: None,
            send_queue: VecDeque::new(),
            responses: VecDeque::new(),
            response: Vec::new(),
            unread: VecDeque::new(),
            delivered: VecDeque::new(),
            rendezvous: Rendezvous::default(),
            trains: Trains::default(),
            events: VecDeque::new(),
            opens: VecDeque::new(),
            next_tick: now,
            next_liveness_check: now,
            next_second: now,
            config: Config { peers: Vec::new(), ..config.clone() },
        })
    }

    /// Uses another identity from now on. Connections of peers that it does not accept are closed
    /// by the next [`Self::configure`].
    ///
    /// # Errors
    /// QUIC cannot use the identity; nothing has changed then.
    pub fn set_identity(
        &mut self,
        identity: &Identity,
        options: Options,
    ) -> Result<(), NoInitialCipherSuite> {
        self.settings = Settings::new(identity, options)?;
        self.identity_changed = true;
        Ok(())
    }

    /// Applies a configuration with the same options: connections of groups that are the same in
    /// both stay. `opened` are the new ones of [`Config::sockets`] by number, each with its maximum
    /// GSO batch and its largest datagram ([`crate::max_datagram`]). With the number that
    /// [`Self::endpoint_for`] gives for a socket, its connections go on there (RFC 9000 section 9).
    /// Without a socket they stay until they time out.
    pub fn configure(
        &mut self,
        now: Instant,
        config: Config,
        opened: impl IntoIterator<Item = (usize, Socket, (usize, u16))>,
    ) {
        self.configurations += 1;
        let session = (self.session ^ self.configurations).to_be_bytes();
        let mut new = Vec::new();
        for (number, socket, sizes) in opened {
            new.push((number, socket.purpose));
            if let Some(endpoint) = self.endpoints.get_mut(&number) {
                endpoint.move_to(socket, sizes);
                continue;
            }
            let endpoint = self.endpoint(socket, sizes, now);
            self.endpoints.insert(number, endpoint);
        }
        self.keep_endpoints(&config);
        let (queue, options) = (config.queue_bytes, config.options);
        let open = |_: &_, group: &crate::config::Group| {
            Ok::<_, Infallible>(Group::new(group.clone(), session, queue, options))
        };
        let Ok(removed) = self.peers.reconcile(config.id, &config.peers, open);
        self.peers.groups_mut().for_each(|group| group.backlog.set_limit(queue));
        self.peers.set_policy(config.placement);
        self.reach.set(config.permissions.clone());
        self.limits.set(now, config.max_rate_bps);
        for (peer, group) in removed {
            self.remove(peer, group, now);
        }
        self.drop_links_without_socket(now);
        for (number, purpose) in new {
            self.on_socket(number, purpose);
        }
        if let Some(proxy) = &mut self.proxy {
            proxy.peers_changed = true;
        }
        self.config = config;
        self.rendezvous.wake(now);
        if std::mem::take(&mut self.identity_changed) {
            self.end_distrusted(now);
        }
    }

    /// Drops the endpoints of which a configuration has no use.
    fn keep_endpoints(&mut self, config: &Config) {
        let (wanted, purposes) = (config.sockets(), config.purposes());
        self.endpoints.retain(|_, endpoint| {
            if let Purpose::Relayed { path } = endpoint.socket.purpose {
                return config.is_met(path);
            }
            endpoint.bound = wanted.contains(&endpoint.socket);
            let is_used = endpoint.socket.purpose.path().is_some() || !endpoint.is_idle();
            endpoint.bound || is_used && purposes.contains(&endpoint.socket.purpose)
        });
    }

    /// A random number, not for secrets.
    pub(super) fn random(&mut self) -> u64 {
        self.random = mix(self.random, 1);
        self.random
    }

    pub(super) fn endpoint(&self, socket: Socket, sizes: (usize, u16), now: Instant) -> Endpoint {
        let (_, max_datagram) = sizes;
        let listens = match socket.purpose {
            Purpose::Listener { .. } | Purpose::Responder { .. } => true,
            Purpose::Connector { .. } => false,
            Purpose::Relayed { path } => self.config.id > path.peer,
        };
        let name = match socket.purpose.path() {
            None => socket.address.to_string(),
            Some(path) => format!("{:?} at {}", path, socket.address),
        };
        let server = || self.settings.server(&self.settings.model(now), max_datagram);
        let server = listens.then(server);
        let config = self.settings.endpoint(listens, &name, max_datagram);
        Endpoint::new(socket, sizes, config, server)
    }

    /// What peers may reach, to be told the gateway's addresses.
    pub fn reach_mut(&mut self) -> &mut Reach {
        &mut self.reach
    }

    /// Closes the connections of a removed group. The client side opens new ones as configured.
    fn remove(&mut self, peer: u16, group: Group, now: Instant) {
        if let Some(proxy) = &mut self.proxy {
            for slot in proxy.all(|id| (id.peer, id.group) == (peer, group.config.id)) {
                drop(proxy.take(slot));
            }
        }
        for mut link in group.members.into_links() {
            link.connection.close(now, CLOSED, "its group was reconfigured".into());
            self.release(link);
        }
    }

    /// MTU of the TUN device, bytes: the largest of any peer; None until the MTU of a path is known.
    /// Packets to peers with a smaller one are handled one by one.
    #[must_use]
    pub fn mtu(&self) -> Option<u16> {
        self.mtu
    }

    /// A peer's MTU is the least of its groups, for a flow may take any of them.
    pub(super) fn update_mtu(&mut self) {
        let of_peer = |peer: &Peer<Group>| peer.groups.iter().filter_map(Group::known_mtu).min();
        self.mtu = self.peers.iter().filter_map(of_peer).max().or(self.mtu);
    }

    /// Keeps a connection that has lost its path, until it is drained.
    pub(super) fn release(&mut self, mut link: Link) {
        let (number, handle) = link.at;
        link.active = true;
        if let Some(endpoint) = self.endpoints.get_mut(&number) {
            endpoint.set_owner(handle, Owner::Nobody);
            self.unowned.insert(link.at, link);
        }
    }

    /// Number of an endpoint that can go on with this socket: that of the same path, or one that
    /// listened at the same address, preferably at the same interface. Endpoints that are `taken`
    /// have a socket already.
    #[must_use]
    pub fn endpoint_for(&self, wanted: &Socket, taken: impl Fn(usize) -> bool) -> Option<usize> {
        let same = |endpoint: &Endpoint| {
            let Socket { address, purpose, .. } = endpoint.socket;
            wanted.purpose.continues(purpose)
                && (purpose.path().is_some() || address == wanted.address)
        };
        let found = self.endpoints.iter().filter(|(number, _)| !taken(**number));
        let found = found.filter(|(_, endpoint)| same(endpoint));
        found
            .min_by_key(|(_, endpoint)| endpoint.socket.interface != wanted.interface)
            .map(|(number, _)| *number)
    }

    /// A path has another socket: its connection tells the peer at once, and one without a
    /// connection connects at once.
    fn on_socket(&mut self, number: usize, purpose: Purpose) {
        let links = self.peers.groups_mut().flat_map(Group::links_mut);
        let links = links.chain(self.unowned.values_mut());
        for link in links.filter(|link| link.at.0 == number) {
            if link.is_client {
                link.connection.local_address_changed();
            }
            link.active = true;
        }
        let Some(id) = purpose.path() else { return };
        let Some(group) = self.peers.group_mut(id.peer, id.group) else { return };
        if let Some(member) = group.members.get_mut(usize::from(id.member)) {
            member.retry = Retry::default();
        }
    }

    /// Drops connections whose socket is gone, and lets all others try to send.
    fn drop_links_without_socket(&mut self, now: Instant) {
        self.send_queue.clear();
        self.batch.clear();
        self.unread.clear();
        let mut lost = Vec::new();
        for link in self.peers.groups_mut().flat_map(Group::links_mut) {
            let Some(id) = link.id else { continue };
            if !self.endpoints.contains_key(&link.at.0) {
                lost.push(id);
                continue;
            }
            link.wake();
            if link.unread {
                self.unread.push_back(id);
            }
        }
        for id in lost {
            self.on_path_lost(id, now);
            let PathId { peer, group, member } = id;
            let reason = ConnectionError::LocallyClosed;
            self.events.push_back(Event::PathDown { peer, group, member, reason });
        }
        self.unowned.retain(|(socket, _), _| self.endpoints.contains_key(socket));
        self.unowned.values_mut().for_each(Link::wake);
    }

    /// Changes the maximum GSO batch of a socket.
    pub fn set_max_batch(&mut self, socket: usize, max_batch: usize) {
        if let Some(endpoint) = self.endpoints.get_mut(&socket) {
            endpoint.max_batch = max_batch;
        }
    }

    /// The next event, oldest first.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// A connection, whoever owns it.
    pub(super) fn link_mut(
        &mut self,
        (number, handle): (usize, ConnectionHandle),
    ) -> Option<&mut Link> {
        match self.endpoints.get_mut(&number)?.owner(handle)? {
            Owner::Nobody => self.unowned.get_mut(&(number, handle)),
            Owner::Path(id) => self.peers.group_mut(id.peer, id.group)?.link_mut(id.member),
        }
    }

    /// The path that owns a connection.
    pub(super) fn path_of(&mut self, at: (usize, ConnectionHandle)) -> Option<PathId> {
        match self.endpoints.get_mut(&at.0)?.owner(at.1)? {
            Owner::Path(id) => Some(id),
            Owner::Nobody => None,
        }
    }
}
