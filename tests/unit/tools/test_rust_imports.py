from __future__ import annotations

from pathlib import Path

import pytest

from rust_imports import imports
from rust_source import tokens


def crate(root: Path, **files: str) -> Path:
    """Writes a crate; `a__b` is the file a/b.rs. Its first file."""
    for name, text in files.items():
        path = root / f"{name.replace('__', '/')}.rs"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root / "lib.rs"


def test_names_are_followed_to_the_file_that_defines_them(tmp_path: Path) -> None:
    root = crate(
        tmp_path,
        lib="mod a;\nmod b;\npub use a::Thing;\n",
        a__mod="mod inner;\npub use self::inner::Thing;\npub(crate) use inner::Other as Renamed;",
        a__inner="pub struct Thing;\npub struct Other;\n",
        b="use crate::{a::Renamed, Thing};\nfn f() { super::a::Thing::new() }\n",
    )
    assert imports(root) == {("b.rs", "a/inner.rs"): {"Renamed", "Thing", "new"}}


def test_a_re_export_is_an_import_where_the_file_uses_the_name(tmp_path: Path) -> None:
    root = crate(
        tmp_path, lib="mod a;\npub use a::{A, B};\nfn f(a: A) {}\n", a="pub struct A; pub struct B;"
    )
    assert imports(root) == {("lib.rs", "a.rs"): {"A"}}


def test_modules_are_no_imports_but_what_is_taken_from_them_is(tmp_path: Path) -> None:
    root = crate(
        tmp_path,
        lib="mod a;\nmod b;\nmod c;",
        a="use super::{b, c::{self, C}};\nfn f() { b::g::<u8>(); c::D.e(); std::mem::take(x) }",
        b="pub fn g<T>() {}",
        c="pub struct C;\npub const D: u8 = 1;",
    )
    assert imports(root) == {("a.rs", "b.rs"): {"g"}, ("a.rs", "c.rs"): {"C", "D"}}


def test_paths_begin_at_crate_self_super_or_a_name_in_scope(tmp_path: Path) -> None:
    root = crate(
        tmp_path,
        lib="mod a;\nmod d;\n",
        a="mod b;\nmod c;\nmod within { fn f() { super::b::f(); } }\n",
        a__b="pub fn f() { super::super::d::D::new() }",
        a__c="use self::nothing::X;\nfn f() { crate::d::D::new(); d::D::new() }",
        d="pub struct D;",
    )
    assert imports(root) == {
        ("a.rs", "a/b.rs"): {"f"},
        ("a/b.rs", "d.rs"): {"new"},
        ("a/c.rs", "d.rs"): {"new"},
    }


def test_what_a_macro_defines_counts_for_its_file(tmp_path: Path) -> None:
    root = crate(
        tmp_path,
        lib="mod a;\nmod b;\nmod c;",
        a="macro_rules! causes { ($name:ident) => { pub struct $name; } }\npub(crate) use causes;",
        b="use crate::a::causes;\ncauses! { Drops }",
        c="fn f(drops: crate::b::Drops) {}",
    )
    assert imports(root) == {("b.rs", "a.rs"): {"causes"}, ("c.rs", "b.rs"): {"Drops"}}


def test_globs(tmp_path: Path) -> None:
    root = crate(
        tmp_path,
        lib="mod a;\nmod b;\nmod c;\npub use c::*;",
        a="use crate::b::*;",
        b="pub fn f() { crate::Deep::new() }",
        c="pub struct Deep;",
    )
    assert imports(root) == {("a.rs", "b.rs"): {"*"}, ("b.rs", "c.rs"): {"new"}}


def test_a_name_of_another_crate_that_is_like_ours_ends(tmp_path: Path) -> None:
    root = crate(tmp_path, lib="mod a;", a="use bytes::bytes;\nfn f() { bytes::new() }")
    assert imports(root) == {}


@pytest.mark.parametrize(
    "test",
    [
        "#[cfg(test)]\nmod tests { use crate::b::B; }",
        "#[cfg(test)]\nmod tests;",
        "#[cfg(test)]\n#[allow(unused)]\npub(crate) use crate::b::{B, C};",
        "#[cfg(all(test, unix))]\nfn f<A, B>(a: [u8; 2]) -> crate::b::B { g() }",
        "struct S {\n    #[cfg(test)]\n    b: crate::b::B,\n}",
        "enum E {\n    #[cfg(test)]\n    B(crate::b::B)\n}",
        '// crate::b::B\n/* crate::b::B */ const S: &str = "crate::b::B";',
    ],
)
def test_tests_comments_and_strings_are_left_out(tmp_path: Path, test: str) -> None:
    root = crate(tmp_path, lib="mod a;\nmod b;\nmod c;", a=f"{test}\nuse crate::c::C;", b="", c="")
    assert imports(root) == {("a.rs", "c.rs"): {"C"}}


def test_tokens() -> None:
    assert tokens("fn f<'a>(x: &'a str) -> char { 'x' } // y") == [
        *("fn", "f", "<", ">", "(", "x", ":", "&", "str", ")", "-", ">", "char", "{", "}")
    ]
