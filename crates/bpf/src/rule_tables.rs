//! The rules of a loaded program (`bpf/rules.h`): three slots, one of which is in force.

#![allow(unsafe_code)] // plain data for the kernel's maps

use aya::{
    Ebpf,
    maps::{Array, ArrayOfMaps, HashMap, MapData},
};

use crate::{
    codes::rules as codes,
    object::{self, Error},
    rules::{Found, Key, Set, TUPLES_MAX, Tuple},
};

/// Slots of sets.
const SLOTS: u32 = codes::RULES_SLOTS;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct InSlot {
    tuples: u32,
    number: u32,
}

// SAFETY: a `repr(C)` structure of integers without padding: every bit pattern is a value.
unsafe impl aya::Pod for InSlot {}

type Table = HashMap<MapData, Key, Found>;

/// The rule tables of a loaded program.
pub(crate) struct RuleTables {
    tables: ArrayOfMaps<MapData, Table>,
    tuples: Array<MapData, Tuple>,
    sets: Array<MapData, InSlot>,
    in_force: Array<MapData, u32>,
    slot: u32,
    number: u32,
}

impl RuleTables {
    pub(crate) fn open(object: &mut Ebpf) -> Result<Self, Error> {
        Ok(Self {
            tables: object::map(object, "rules")?.try_into()?,
            tuples: object::array(object, "rules_tuples")?,
            sets: object::array(object, "rules_sets")?,
            in_force: object::array(object, "rules_in_force")?,
            slot: 0,
            number: 0,
        })
    }

    /// The slot of the next set, which no run of the program reads.
    pub(crate) fn spare(&self) -> u32 {
        (self.slot + 1) % SLOTS
    }

    /// Installs a set in the next slot, then puts it in force atomically. To set the table waits until all runs of the
    /// program that had begun have ended.
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
        self.sets.set(slot, InSlot { tuples, number }, 0)?;
        self.in_force.set(0, slot, 0)?;
        (self.slot, self.number) = (slot, number);
        Ok(())
    }
}
