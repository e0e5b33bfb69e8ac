//! Records as CSV, with the names of flowtbag.

use std::io::{self, Write};

use hawser_flowmeter::{Record, features::NAMES};
use hawser_trees::Model;

/// Writes records; the first error stops it and is returned by [`finish`](Self::finish).
pub(crate) struct Records<W: Write> {
    to: W,
    model: Option<Model>,
    has_header: bool,
    result: io::Result<()>,
}

impl<W: Write> Records<W> {
    /// Nothing is written before the first record, so that a bad capture leaves nothing.
    pub(crate) fn new(to: W, model: Option<Model>) -> Self {
        Self { to, model, has_header: false, result: Ok(()) }
    }

    pub(crate) fn write(&mut self, record: &Record) {
        if self.result.is_ok() {
            self.result = self.header().and_then(|()| self.line(record));
        }
    }

    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.header()?;
        self.result?;
        self.to.flush()
    }

    fn header(&mut self) -> io::Result<()> {
        if self.has_header {
            return Ok(());
        }
        self.has_header = true;
        let score = if self.model.is_some() { ",score" } else { "" };
        writeln!(
            self.to,
            "srcip,srcport,dstip,dstport,proto,first_us,last_us,reason,is_conversation,{}{score}",
            NAMES.join(",")
        )
    }

    fn line(&mut self, record: &Record) -> io::Result<()> {
        let Record { tuple, first, last, is_conversation, features, .. } = record;
        write!(
            self.to,
            "{},{},{},{},{},{first},{last},{},{}",
            tuple.source,
            tuple.source_port,
            tuple.destination,
            tuple.destination_port,
            tuple.protocol,
            record.reason.name(),
            u8::from(*is_conversation),
        )?;
        for value in features {
            write!(self.to, ",{value}")?;
        }
        if let Some(model) = &self.model {
            write!(self.to, ",{}", model.score(features))?;
        }
        writeln!(self.to)
    }
}

#[cfg(test)]
mod tests {
    use hawser_flowmeter::{FlowTable, Packet, Settings};

    use super::*;

    /// A SYN over IPv4.
    const SYN: [u8; 40] = [
        0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, 6, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, // IPv4
        0x9c, 0x40, 0x01, 0xbb, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x02, 0xff, 0xff, 0, 0, 0, 0,
    ];

    #[test]
    fn a_line_has_as_many_values_as_the_header_names() {
        let mut text = Vec::new();
        let mut records = Records::new(&mut text, None);
        let mut table = FlowTable::new(Settings::default());
        table.observe(7, &Packet::parse(&SYN).unwrap(), &mut |record| records.write(&record));
        table.finish(&mut |record| records.write(&record));
        records.finish().unwrap();
        let text = String::from_utf8(text).unwrap();
        let [header, line] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
        assert_eq!(header.split(',').count(), line.split(',').count());
        assert!(line.starts_with("192.0.2.1,40000,192.0.2.2,443,6,7,7,ended,0,1,40,"), "{line}");
    }

    #[test]
    fn no_flow_leaves_the_header() {
        let mut text = Vec::new();
        Records::new(&mut text, None).finish().unwrap();
        assert!(text.starts_with(b"srcip,") && text.ends_with(b"dscp\n"));
    }
}
