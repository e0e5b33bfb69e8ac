//! The member paths of a group, with what the tunnel asks of all groups at each wake: the earliest timer, and connections
//! that may have something to send.
//!
//! Every mutable access to a member is noted, so that a group without activity answers from its cache. Visiting every
//! connection instead took 126 us a wake with 15 peers of 16 paths, and takes 28 us now (docs/design/gateway.md).

use std::time::Instant;

use hawser_multipath::{Compliance, State, View};

use crate::{meeting::Meeting, path::Link, retry::Retry};

/// A member path.
#[derive(Default)]
pub(crate) struct Member {
    /// Its connection, once the hellos were exchanged.
    pub(crate) link: Option<Link>,
    pub(crate) retry: Retry,
    pub(crate) meeting: Meeting,
    pub(crate) connections: u64,
    /// Whether it meets the thresholds of the group's class.
    pub(crate) compliance: Compliance,
    /// Bytes of packets assigned to it.
    pub(crate) assigned: u64,
    /// Largest inner packet that it takes whole, and when that was last seen.
    pub(super) mtu: Option<(u16, Instant)>,
}

impl Member {
    /// State of its path, with regard to the thresholds.
    pub(crate) fn state(&self, view: &View) -> State {
        let lacks = view.state == State::Up && !self.compliance.complies();
        if lacks { State::Standby } else { view.state }
    }
}

/// The member paths of a group.
pub(crate) struct Members {
    list: Vec<Member>,
    /// Whether a connection may have become active since the last [`Self::take_active`].
    changed: bool,
    /// Whether `deadline` may be out of date.
    stale: bool,
    /// The earliest timer of all connections.
    deadline: Option<Instant>,
}

impl Members {
    pub(super) fn new(paths: usize) -> Self {
        let list = std::iter::repeat_with(Member::default).take(paths).collect();
        Self { list, changed: true, stale: true, deadline: None }
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Member> {
        self.list.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Member> {
        (self.changed, self.stale) = (true, true);
        self.list.iter_mut()
    }

    pub(crate) fn get_mut(&mut self, member: usize) -> Option<&mut Member> {
        (self.changed, self.stale) = (true, true);
        self.list.get_mut(member)
    }

    /// The connection of a member path.
    pub(crate) fn link_mut(&mut self, member: usize) -> Option<&mut Link> {
        self.get_mut(member)?.link.as_mut()
    }

    /// All connections, when the group is gone.
    pub(crate) fn into_links(self) -> impl Iterator<Item = Link> {
        self.list.into_iter().filter_map(|member| member.link)
    }

    /// The connections that may have something to send. They are not given again until something
    /// happens to them.
    pub(crate) fn take_active(&mut self) -> impl Iterator<Item = &mut Link> {
        let changed = std::mem::take(&mut self.changed);
        let members = if changed { self.list.as_mut_slice() } else { &mut [] };
        members.iter_mut().filter_map(|member| member.link.as_mut()).filter(|link| link.active)
    }

    /// The earliest timer of all connections.
    pub(crate) fn poll_timeout(&mut self) -> Option<Instant> {
        if std::mem::take(&mut self.stale) {
            let links = self.list.iter_mut().filter_map(|member| member.link.as_mut());
            self.deadline = links.filter_map(|link| link.connection.poll_timeout()).min();
        }
        self.deadline
    }
}
