//! Compiles each `src/bpf/*.bpf.c` with clang for the BPF target.

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn main() -> Result<(), Box<dyn Error>> {
    let source = Path::new("src/bpf");
    println!("cargo::rerun-if-changed={}", source.display());
    let out = PathBuf::from(env::var("OUT_DIR")?);
    for entry in fs::read_dir(source)? {
        let file = entry?.path();
        if let Some(name) = file.to_str().and_then(|name| name.strip_suffix(".bpf.c")) {
            let name = Path::new(name).file_name().unwrap_or_default();
            compile(&file, &out.join(name).with_extension("o"))?;
        }
    }
    Ok(())
}

/// `-mcpu=v3`: 32-bit jumps and compare-and-exchange, which kernels from 5.12 on have.
fn compile(source: &Path, object: &Path) -> Result<(), Box<dyn Error>> {
    let mut clang = Command::new("clang");
    clang.args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror"]);
    clang.args(["-Wno-unused-parameter", "-Wno-missing-declarations"]);
    clang.args(["-idirafter", &system_headers()?]);
    let status = clang.arg("-c").arg(source).arg("-o").arg(object).status();
    let status = status.map_err(|e| format!("clang ({e}): install clang, llvm and libbpf-dev"))?;
    if status.success() { Ok(()) } else { Err(format!("clang: {status}").into()) }
}

/// Where Debian keeps `asm/types.h`, which clang does not look up for the BPF target.
fn system_headers() -> Result<String, env::VarError> {
    Ok(format!("/usr/include/{}-linux-gnu", env::var("CARGO_CFG_TARGET_ARCH")?))
}
