//! Sockets of gateways: which endpoint goes on with which.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use hawser_sim::gateways::{Gateways, OPTIONS, Wire, number_of, segment};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn paths_at_one_address_have_sockets_of_their_own_at_an_interface() {
    let wires = [Wire::new(10.0, 20.0); 2];
    for end in [0, 1] {
        let mut gateways = Gateways::new(Instant::now(), &wires, 1, OPTIONS).unwrap();
        gateways.run(2 * SECOND);
        gateways.share_address(end, (0, 1));
        gateways.run(SECOND);
        for interface in [Some(7), None, Some(8)] {
            gateways.set_interface(end, 1, interface);
            let sockets = gateways.sockets(end);
            // Those that connect have one a path; those that listen share one at the same interface.
            let expected = if end == 1 && interface.is_none() { 1 } else { 2 };
            assert_eq!(sockets.len(), expected, "{interface:?}");
            gateways.run(20 * SECOND);
            gateways.take_received(1);
            gateways.send(0, &segment(0, 1, 1, 500));
            gateways.run(SECOND);
            let came = gateways.take_received(1);
            assert_eq!(number_of(came.first().unwrap()), Some((1, 1)));
        }
    }
}
