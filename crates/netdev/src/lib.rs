//! TUN, Multipath TCP and raw sockets.
