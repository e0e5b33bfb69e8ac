//! Ethernet addresses as configurations write them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An Ethernet address, such as `02:00:00:00:00:01`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Mac(
    #[schemars(regex(pattern = "^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$"))] pub(crate) String,
);

impl Mac {
    /// The six octets; zero for what the schema refuses.
    pub(crate) fn octets(&self) -> [u8; 6] {
        let mut octets = [0; 6];
        for (octet, digits) in octets.iter_mut().zip(self.0.split(':')) {
            *octet = u8::from_str_radix(digits, 16).unwrap_or(0);
        }
        octets
    }
}
