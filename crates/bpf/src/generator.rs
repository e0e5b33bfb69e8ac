//! The generator: writes frames of any number of streams and paces them, in the kernel.

use std::{io, sync::Mutex};

use aya::{
    Ebpf, Pod, TestRun as _,
    maps::{Array, MapData},
    programs::{ProgramError, TestRunAttrs, TestRunOptions},
};

use crate::{
    layout::{Control, Flow, Frame, Progress, STREAMS_MAX, Shape},
    object::{self, Error, object},
};

const SEND: &str = "load_send";
const REPLAY: &str = "load_replay";

/// What a generator sends.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// At most [`STREAMS_MAX`].
    pub streams: Vec<Control>,
    /// Flows of all streams.
    pub flows: Vec<Flow>,
    /// Shapes of all streams.
    pub shapes: Vec<Shape>,
    /// Indices of shapes: the patterns of all streams.
    pub pattern: Vec<u32>,
}

/// A recording: frames that are sent unchanged, in turn.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Its stream, whose pattern has one element for each frame.
    pub stream: Control,
    /// The frames.
    pub frames: Vec<Frame>,
}

/// A loaded generator.
pub struct Generator {
    object: Ebpf,
    program: &'static str,
    frame: Vec<u8>,
    control: Mutex<Array<MapData, Control>>,
    progress: Array<MapData, Progress>,
    flows: Option<Array<MapData, Flow>>,
    flow_count: u32,
}

impl Generator {
    /// Loads the program and its tables. Nothing is sent yet.
    pub fn load(plan: &Plan) -> Result<Self, Error> {
        let streams = object::entries(plan.streams.len())?;
        if plan.streams.len() > STREAMS_MAX {
            return Err(Error::Absent("room for that many streams"));
        }
        let frame_max = plan.shapes.iter().map(|shape| shape.length).max().unwrap_or_default();
        let flow_count = object::entries(plan.flows.len())?;
        let every_run_sends = u8::from(plan.streams.len() == 1 && plan.streams.iter().all(unpaced));
        let mut object = object::loader()
            .override_global("clock_shared", &every_run_sends, true)
            .override_global("stream_count", &streams, true)
            .override_global("frame_max", &frame_max, true)
            .map_max_entries("control", streams)
            .map_max_entries("progress", streams)
            .map_max_entries("flows", flow_count)
            .map_max_entries("shapes", object::entries(plan.shapes.len())?)
            .map_max_entries("pattern", object::entries(plan.pattern.len())?)
            .load(object!("load/send"))?;
        object::xdp(&mut object, SEND)?.load()?;
        table(&mut object, "shapes", &plan.shapes)?;
        table(&mut object, "pattern", &plan.pattern)?;
        let flows = table(&mut object, "flows", &plan.flows)?;
        let generator = Self::new(object, SEND, &plan.streams, frame_max)?;
        Ok(Self { flows: Some(flows), flow_count, ..generator })
    }

    /// Loads a program that sends a recording.
    pub fn replay(recording: &Recording) -> Result<Self, Error> {
        let frame_max = recording.frames.iter().map(|f| f.length).max().unwrap_or_default();
        let mut object = object::loader()
            .override_global("frame_max", &frame_max, true)
            .map_max_entries("frames", object::entries(recording.frames.len())?)
            .load(object!("load/replay"))?;
        object::xdp(&mut object, REPLAY)?.load()?;
        table(&mut object, "frames", &recording.frames)?;
        Self::new(object, REPLAY, &[recording.stream], frame_max)
    }

    fn new(
        mut object: Ebpf,
        program: &'static str,
        streams: &[Control],
        frame_max: u32,
    ) -> Result<Self, Error> {
        Ok(Self {
            control: Mutex::new(table(&mut object, "control", streams)?),
            progress: object::array(&mut object, "progress")?,
            flows: None,
            flow_count: 0,
            frame: vec![0; frame_max as usize],
            program,
            object,
        })
    }

    /// Runs the program `times` times with the interface as ingress, and flushes the device after each `batch`. Returns
    /// when done or interrupted (see [`crate::interrupt`]).
    ///
    /// A call with `times` 1 takes 12 us. With more, the kernel first waits for two RCU grace periods (about 30 ms),
    /// because it adds the program to its XDP dispatcher; therefore a trial is one call.
    pub fn run(&self, interface: u32, times: u32, batch: u32) -> Result<(), Error> {
        let program = self.object.program(self.program).ok_or(Error::Absent(self.program))?;
        let program: &aya::programs::Xdp = program.try_into()?;
        let context = object::context(interface, self.frame.len())?;
        let options = TestRunOptions {
            data_in: Some(&self.frame),
            ctx_in: Some(&context),
            repeat: times,
            attrs: TestRunAttrs::new().xdp_live_frames(batch),
            ..TestRunOptions::new()
        };
        match program.test_run(options) {
            Err(ProgramError::SyscallError(error))
                if error.io_error.kind() == io::ErrorKind::Interrupted =>
            {
                Ok(())
            }
            result => result.map(drop).map_err(Error::from),
        }
    }

    /// Changes a stream while it runs.
    pub fn set(&self, stream: u32, control: &Control) -> Result<(), Error> {
        let mut table = self.control.lock().map_err(|_| Error::Absent("usable control table"))?;
        Ok(table.set(stream, control, 0)?)
    }

    /// Progress of a stream.
    pub fn progress(&self, stream: u32) -> Result<Progress, Error> {
        Ok(self.progress.get(&stream, 0)?)
    }

    /// The flows with their current sequence numbers and bytes; empty for a recording.
    pub fn flows(&self) -> Result<Vec<Flow>, Error> {
        let Some(flows) = &self.flows else { return Ok(Vec::new()) };
        (0..self.flow_count).map(|index| Ok(flows.get(&index, 0)?)).collect()
    }
}

fn unpaced(stream: &Control) -> bool {
    stream.interval_ns == 0 && stream.interval_fraction == 0
}

/// Fills a map. The program must be loaded and hold the map, which would otherwise be freed with its handle.
fn table<V: Pod>(
    object: &mut Ebpf,
    name: &'static str,
    values: &[V],
) -> Result<Array<MapData, V>, Error> {
    let mut table = object::array(object, name)?;
    object::fill(&mut table, values)?;
    Ok(table)
}
