//! A port for live frames.

use aya::{
    Btf, Ebpf,
    maps::{MapData, PerCpuArray},
    programs::{BtfTracePoint, xdp::XdpMode},
};

use crate::{
    meter::sum,
    object::{self, Error, object},
};

const PASS: &str = "load_pass";
const REFUSED: &str = "load_refused";

/// A port that can send live frames. Counts frames that the device refused.
pub struct Port {
    object: Ebpf,
    refused: PerCpuArray<MapData, u64>,
}

impl Port {
    /// Starts to count frames that the interface refuses; `namespace` is the inode of its network namespace.
    pub fn open(interface: u32, namespace: u32) -> Result<Self, Error> {
        let types = Btf::from_sys_fs()?;
        let mut object = object::loader()
            .btf(Some(&types))
            .override_global("interface", &interface, true)
            .override_global("namespace", &namespace, true)
            .load(object!("load/pass"))?;
        let program = object.program_mut(REFUSED).ok_or(Error::Absent(REFUSED))?;
        let program: &mut BtfTracePoint = program.try_into()?;
        program.load("xdp_devmap_xmit", &types)?;
        program.attach()?;
        Ok(Self { refused: object::per_cpu(&mut object, "refused")?, object })
    }

    /// Attaches a program that passes all frames, if there is no meter: live frames can only leave through an
    /// interface with an XDP program.
    pub fn pass(&mut self, interface: u32) -> Result<(), Error> {
        let program = object::xdp(&mut self.object, PASS)?;
        program.load()?;
        program.attach_to_if_index(interface, XdpMode::default())?;
        Ok(())
    }

    /// Frames that the device has refused since [`Port::open`].
    pub fn refused(&self) -> Result<u64, Error> {
        sum(&self.refused, 0, |a, b| a + b)
    }
}
