//! A port that live frames leave by.

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

/// A port that is ready to send. It counts frames that the device did not take.
pub struct Port {
    object: Ebpf,
    refused: PerCpuArray<MapData, u64>,
}

impl Port {
    /// Begins to count what the interface refuses; `namespace` is the inode of its network
    /// namespace.
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

    /// Puts a program that lets everything through on the interface, where no meter stands: live
    /// frames can only leave by a port with a program.
    pub fn pass(&mut self, interface: u32) -> Result<(), Error> {
        let program = object::xdp(&mut self.object, PASS)?;
        program.load()?;
        program.attach_to_if_index(interface, XdpMode::default())?;
        Ok(())
    }

    /// Frames the device did not take since [`Port::open`].
    pub fn refused(&self) -> Result<u64, Error> {
        sum(&self.refused, 0, |a, b| a + b)
    }
}
