//! Loading of compiled programs, and its errors.

use std::io;

use aya::{
    Ebpf, EbpfError, EbpfLoader, Pod, TestRun as _,
    maps::{Array, Map, MapData, MapError, PerCpuArray, xdp::DevMap},
    programs::{
        ProgramError, TestRunOptions, Xdp,
        xdp::{XdpLinkId, XdpMode},
    },
};

/// Why a program could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The object file or one of its maps was rejected.
    #[error("eBPF object: {0}")]
    Object(#[from] EbpfError),
    /// The kernel rejected a program. The message contains the verifier's log.
    #[error("eBPF program: {0}")]
    Program(#[from] ProgramError),
    /// A map could not be read or written.
    #[error("eBPF map: {0}")]
    Map(#[from] MapError),
    /// The kernel has no BTF, which the counter of refused frames needs.
    #[error("eBPF type information: {0}")]
    Types(#[from] aya::BtfError),
    /// The object lacks a program or map.
    #[error("the eBPF object has no {0}")]
    Absent(&'static str),
    /// An interface cannot be a port.
    #[error("eBPF port: {0}")]
    Port(String),
    /// Addresses of one flow entry are of both versions of IP.
    #[error("a flow entry has addresses of IPv4 and of IPv6")]
    Versions,
    /// There are more rules than fit into the tables.
    #[error(transparent)]
    Rules(#[from] crate::rules::TooMany),
    /// Another system call failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Error {
    /// Whether the process lacks privileges.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        let text = self.to_string(); // the variants differ by program type, map type and kernel
        text.contains("Operation not permitted") || text.contains("os error 1)")
    }
}

/// The object compiled from `src/bpf/FOLDER/NAME.bpf.c`, aligned for the ELF reader.
macro_rules! object {
    ($name:literal) => {
        aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/", $name, ".o"))
    };
}
pub(crate) use object;

/// A loader without BTF, which would take most of the load time.
pub(crate) fn loader<'a>() -> EbpfLoader<'a> {
    let mut loader = EbpfLoader::new();
    loader.btf(None);
    loader
}

pub(crate) fn xdp<'a>(object: &'a mut Ebpf, name: &'static str) -> Result<&'a mut Xdp, Error> {
    let program = object.program_mut(name).ok_or(Error::Absent(name))?;
    Ok(program.try_into()?)
}

/// Attaches a program to an interface.
pub(crate) fn attach(
    object: &mut Ebpf,
    name: &'static str,
    interface: u32,
) -> Result<XdpLinkId, Error> {
    Ok(xdp(object, name)?.attach_to_if_index(interface, XdpMode::default())?)
}

/// Makes an interface a port of this number.
pub(crate) fn add_port(
    devices: &mut DevMap<MapData>,
    number: u32,
    interface: u32,
) -> Result<(), Error> {
    devices.set(number, interface, None, 0).map_err(|error| Error::Port(error.to_string()))
}

pub(crate) fn map(object: &mut Ebpf, name: &'static str) -> Result<Map, Error> {
    object.take_map(name).ok_or(Error::Absent(name))
}

pub(crate) fn array<V: Pod>(
    object: &mut Ebpf,
    name: &'static str,
) -> Result<Array<MapData, V>, Error> {
    Ok(map(object, name)?.try_into()?)
}

pub(crate) fn per_cpu<V: Pod>(
    object: &mut Ebpf,
    name: &'static str,
) -> Result<PerCpuArray<MapData, V>, Error> {
    Ok(map(object, name)?.try_into()?)
}

pub(crate) fn ring(
    object: &mut Ebpf,
    name: &'static str,
) -> Result<aya::maps::RingBuf<MapData>, Error> {
    Ok(map(object, name)?.try_into()?)
}

/// Writes `values` from index 0.
pub(crate) fn fill<V: Pod>(table: &mut Array<MapData, V>, values: &[V]) -> Result<(), Error> {
    for (index, value) in (0u32..).zip(values) {
        table.set(index, value, 0)?;
    }
    Ok(())
}

/// A length as the kernel's type.
pub(crate) fn entries(length: usize) -> Result<u32, Error> {
    u32::try_from(length.max(1)).map_err(|_| Error::Absent("room for a table of that length"))
}

/// `struct xdp_md` of the kernel's interface: data, end of data, metadata, ingress interface, receive queue, egress
/// interface.
pub(crate) fn context(interface: u32, length: usize) -> Result<[u8; 24], Error> {
    let fields = [0, entries(length)?, 0, interface, 0, 0];
    let mut bytes = [0; 24];
    for (place, field) in bytes.chunks_exact_mut(4).zip(fields) {
        place.copy_from_slice(&field.to_ne_bytes());
    }
    Ok(bytes)
}

/// Verdict of an XDP program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Dropped.
    Drop,
    /// Passed to the kernel.
    Pass,
    /// Redirected to a port, possibly the ingress port.
    Redirect,
}

/// Runs a program on a frame (`BPF_PROG_RUN`) with the loopback interface as ingress.
pub(crate) fn run(
    object: &Ebpf,
    name: &'static str,
    frame: &[u8],
) -> Result<(Verdict, Vec<u8>), Error> {
    let program: &Xdp = object.program(name).ok_or(Error::Absent(name))?.try_into()?;
    let mut bytes = vec![0; frame.len() + 256];
    let options = TestRunOptions {
        data_in: Some(frame),
        data_out: Some(&mut bytes),
        ..TestRunOptions::new()
    };
    let result = program.test_run(options)?;
    bytes.truncate(result.data_size_out as usize);
    let verdict = match result.return_value {
        2 => Verdict::Pass,
        4 => Verdict::Redirect,
        _ => Verdict::Drop,
    };
    Ok((verdict, bytes))
}
