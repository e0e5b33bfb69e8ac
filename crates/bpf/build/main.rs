//! Compiles each `src/bpf/FOLDER/NAME.bpf.c` with clang for the BPF target.

use std::{
    env,
    error::Error,
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

const SOURCE: &str = "src/bpf";

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
    Ok(())
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
