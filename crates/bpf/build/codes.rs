//! The numbers that programs and loader share: read from the programs' headers, written as Rust.

use std::fmt::Write;

/// A module with the constants of a header: `#define NAME NUMBER`, the members of each `enum`, and `DROPS`,
/// the causes of `enum ..._drop` in their order.
pub(crate) fn module(name: &str, header: &str) -> String {
    let text = without_comments(header);
    let mut made = format!("pub(crate) mod {name} {{\n");
    for (name, value) in text.lines().filter_map(definition) {
        let _ = writeln!(made, "pub(crate) const {name}: u32 = {value};"); // to a string: cannot fail
    }
    for (name, members) in text.split("\nenum ").skip(1).filter_map(enumeration) {
        for (value, member) in members.iter().enumerate() {
            let _ = writeln!(made, "pub(crate) const {member}: u32 = {value};");
        }
        if name.ends_with("_drop") {
            let causes: Vec<_> = members.iter().filter_map(|member| cause(member)).collect();
            let _ = writeln!(made, "pub(crate) const DROPS: &[&str] = &{causes:?};");
        }
    }
    made + "}\n"
}

fn without_comments(text: &str) -> String {
    let mut pieces = text.split("/*");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| text + piece.split_once("*/").map_or("", |(_, rest)| rest))
}

fn definition(line: &str) -> Option<(&str, u32)> {
    let (name, value) = line.strip_prefix("#define ")?.trim().split_once(' ')?;
    let value = match value.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok()?,
        None => value.parse().ok()?,
    };
    Some((name, value))
}

/// The name and members of an enumeration that counts from 0.
fn enumeration(text: &str) -> Option<(&str, Vec<&str>)> {
    let (name, rest) = text.split_once('{')?;
    let (body, _) = rest.split_once('}')?;
    let members = body.split(',').map(str::trim).filter(|member| !member.is_empty()).collect();
    Some((name.trim(), members))
}

fn cause(member: &str) -> Option<String> {
    Some(member.strip_prefix("DROP_")?.to_lowercase()).filter(|name| name != "causes")
}
