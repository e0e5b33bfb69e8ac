//! Compiles each `src/bpf/FOLDER/NAME.bpf.c` with clang for the BPF target, and writes the numbers
//! that the programs share with this crate as Rust.

mod codes;

use std::{
    env,
    error::Error,
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

const SOURCE: &str = "src/bpf";

/// What programs and loader share.
const HEADERS: [(&str, &str); 5] = [
    ("load", "load/load.h"),
    ("nsh", "nsh/nsh.h"),
    ("rules", "rules.h"),
    ("srv6", "srv6/srv6.h"),
    ("switch", "switch/switch.h"),
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={SOURCE}");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    for folder in files(Path::new(SOURCE))?.into_iter().filter(|path| path.is_dir()) {
        let objects = out.join(folder.file_name().unwrap_or_default());
        fs::create_dir_all(&objects)?;
        for file in files(&folder)? {
            let name = file.file_name().and_then(OsStr::to_str).unwrap_or_default();
            if let Some(name) = name.strip_suffix(".bpf.c") {
                compile(&file, &objects.join(name).with_extension("o"))?;
            }
        }
    }
    let modules = HEADERS.map(|(name, header)| {
        fs::read_to_string(Path::new(SOURCE).join(header)).map(|text| codes::module(name, &text))
    });
    let modules: Vec<_> = modules.into_iter().collect::<io::Result<_>>()?;
    Ok(fs::write(out.join("codes.rs"), modules.concat())?)
}

/// What is in a folder, in order.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}

/// `-mcpu=v3`: 32-bit jumps and compare-and-exchange, which kernels from 5.12 on have.
fn compile(source: &Path, object: &Path) -> Result<(), Box<dyn Error>> {
    let mut clang = Command::new("clang");
    clang.args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror"]);
    clang.args(["-Wno-unused-parameter", "-Wno-missing-declarations"]);
    clang.args(["-I", SOURCE, "-idirafter", &system_headers()?]);
    let status = clang.arg("-c").arg(source).arg("-o").arg(object).status();
    let status = status.map_err(|e| format!("clang ({e}): install clang, llvm and libbpf-dev"))?;
    if status.success() { Ok(()) } else { Err(format!("clang: {status}").into()) }
}

/// Where Debian keeps `asm/types.h`, which clang does not look up for the BPF target.
fn system_headers() -> Result<String, env::VarError> {
    Ok(format!("/usr/include/{}-linux-gnu", env::var("CARGO_CFG_TARGET_ARCH")?))
}
