//! The rules of a loaded program (`bpf/rules.h`): two slots, one of which is active.

#![allow(unsafe_code)] // plain data for the kernel's maps

use aya::{
    Ebpf,
    maps::{Array, ArrayOfMaps, HashMap, MapData},
};

use crate::{
    object::{self, Error},
    rules::{Found, Key, Set, TUPLES_MAX, Tuple},
};

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct InForce {
    slot: u32,
    tuples: u32,
    number: u32,
}

// SAFETY: a `repr(C)` structure of integers without padding: every bit pattern is a value.
unsafe impl aya::Pod for InForce {}

type Table = HashMap<MapData, Key, Found>;

/// The rule tables of a loaded program.
pub(crate) struct RuleTables {
    tables: ArrayOfMaps<MapData, Table>,
    tuples: Array<MapData, Tuple>,
    in_force: Array<MapData, InForce>,
    slot: u32,
    number: u32,
}

impl RuleTables {
    pub(crate) fn open(object: &mut Ebpf) -> Result<Self, Error> {
        Ok(Self {
            tables: object::map(object, "rules")?.try_into()?,
            tuples: object::array(object, "rules_tuples")?,
            in_force: object::array(object, "rules_set")?,
            slot: 0,
            number: 0,
        })
    }

    /// The inactive slot: 0 or 1.
    pub(crate) fn spare(&self) -> u32 {
        1 - self.slot
    }

    /// Installs a set in the inactive slot and activates it atomically.
    pub(crate) fn install(&mut self, set: &Set) -> Result<(), Error> {
        let slot = self.spare();
        let mut table = Table::create(object::entries(set.entries.len())?, 0)?;
        for (key, found) in &set.entries {
            table.insert(key, found, 0)?;
        }
        self.tables.set(slot, &table, 0)?;
        for (number, tuple) in (slot * TUPLES_MAX..).zip(&set.tuples) {
            self.tuples.set(number, tuple, 0)?;
        }
        let tuples = u32::try_from(set.tuples.len()).unwrap_or(TUPLES_MAX);
        let number = self.number.wrapping_add(1);
        self.in_force.set(0, InForce { slot, tuples, number }, 0)?;
        (self.slot, self.number) = (slot, number);
        Ok(())
    }
}
