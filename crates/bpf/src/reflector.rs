//! The reflector: sends load frames back to where they came from.

use aya::{
    Ebpf,
    maps::{MapData, PerCpuArray},
    programs::xdp::XdpMode,
};

use crate::{
    layout::Port,
    meter::sum,
    object::{self, Error, object},
};

const PROGRAM: &str = "load_reflect";

/// The loaded reflector. It is detached from its port when dropped.
pub struct Reflector {
    object: Ebpf,
    port: PerCpuArray<MapData, Port>,
}

impl Reflector {
    /// Loads the program.
    pub fn load() -> Result<Self, Error> {
        let mut object = object::loader().load(object!("load/reflect"))?;
        object::xdp(&mut object, PROGRAM)?.load()?;
        Ok(Self { port: object::per_cpu(&mut object, "port")?, object })
    }

    /// Attaches the reflector to a port.
    pub fn attach(&mut self, interface: u32) -> Result<(), Error> {
        let program = object::xdp(&mut self.object, PROGRAM)?;
        program.attach_to_if_index(interface, XdpMode::default())?;
        Ok(())
    }

    /// The counters of the port.
    pub fn port(&self) -> Result<Port, Error> {
        sum(&self.port, 0, Port::merge)
    }
}
