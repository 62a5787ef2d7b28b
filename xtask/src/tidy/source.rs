//! One Rust file as the rules see it: what it names, how long it is, what its first lines say.
//!
//! Items for tests only are left out everywhere.

use super::Finding;
use anyhow::{Context, Result};
use proc_macro2::{Span, TokenStream, TokenTree};
use std::path::{Path, PathBuf};
use syn::{
    Attribute, Expr, Item, ItemMod, Lit, Macro, Meta, TypeTraitObject, UseTree,
    spanned::Spanned,
    visit::{self, Visit},
};

/// The most lines of a file, tests aside.
const LENGTH: usize = 500;

/// Something that a file names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) line: usize,
    /// A path like `std::fs::read`, from the crate's root where it is one of its own.
    pub(super) path: String,
}

/// A parsed file.
#[derive(Debug)]
pub(super) struct Source {
    path: String,
    has_header: bool,
    lines: usize,
    facts: Facts,
}

/// What a walk through the syntax tree collects.
#[derive(Debug, Default)]
struct Facts {
    /// The module's place in its crate.
    module: Vec<String>,
    named: Vec<Named>,
    strings: Vec<(usize, String)>,
    dyn_lines: Vec<usize>,
    allow_lines: Vec<usize>,
    test_lines: usize,
    test_modules: Vec<String>,
}

impl Source {
    /// Parses a file.
    ///
    /// # Errors
    ///
    /// If it is not Rust.
    pub(super) fn read(path: &str, content: &str) -> Result<Self> {
        let file = syn::parse_file(content).with_context(|| format!("{path} is not Rust"))?;
        let mut facts = Facts { module: module_of(path), ..Facts::default() };
        facts.visit_file(&file);
        let has_header = file.attrs.iter().any(|attribute| attribute.path().is_ident("doc"));
        Ok(Self { path: path.to_owned(), has_header, lines: content.lines().count(), facts })
    }

    /// The file, from the checkout's top folder.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Everything that it names.
    pub(super) fn named(&self) -> &[Named] {
        &self.facts.named
    }

    /// String literals, with their lines.
    pub(super) fn strings(&self) -> &[(usize, String)] {
        &self.facts.strings
    }

    /// Lines with a trait object.
    pub(super) fn dyn_lines(&self) -> &[usize] {
        &self.facts.dyn_lines
    }

    /// Files and folders of its modules that are for tests only.
    pub(super) fn test_files(&self) -> Vec<PathBuf> {
        let path = Path::new(&self.path);
        let is_root = matches!(path.file_name().and_then(|name| name.to_str()), Some("mod.rs" | "lib.rs" | "main.rs"));
        let folder = if is_root { path.with_file_name("") } else { path.with_extension("") };
        let modules = self.facts.test_modules.iter();
        modules.flat_map(|name| [folder.join(format!("{name}.rs")), folder.join(name)]).collect()
    }

    /// The rules for every file.
    pub(super) fn check(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        if !self.has_header {
            findings.push(Finding::new(&self.path, 1, "a module opens with `//!`: its job, and what it must not do"));
        }
        for line in &self.facts.allow_lines {
            findings.push(Finding::new(&self.path, *line, "use `#[expect(lint, reason = \"…\")]`, not `allow`"));
        }
        findings
    }

    /// The rule for every file that is not for tests only.
    pub(super) fn check_length(&self) -> Option<Finding> {
        let lines = self.lines.saturating_sub(self.facts.test_lines);
        let message =
            format!("{lines} lines without tests are more than {LENGTH}: make it two files, each with one job");
        (lines > LENGTH).then(|| Finding::new(&self.path, LENGTH, message))
    }
}

/// `agent/src/plan/retire.rs` is `crate::plan::retire`.
fn module_of(path: &str) -> Vec<String> {
    let inside = path.split_once("src/").map_or(path, |(_, inside)| inside);
    let inside = inside.trim_end_matches(".rs");
    let names = inside.split('/').filter(|name| !matches!(*name, "mod" | "lib" | "main"));
    std::iter::once("crate").chain(names).map(str::to_owned).collect()
}

fn line(span: Span) -> usize {
    span.start().line
}

/// Whether an item is compiled for tests only, or for tests and those that ask for a feature.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) => list.path.is_ident("cfg") && asks_for_tests(list.tokens.clone()),
        Meta::NameValue(_) => false,
        Meta::Path(path) => path.is_ident("test"),
    })
}

fn asks_for_tests(condition: TokenStream) -> bool {
    let mut is_negated = false;
    condition.into_iter().any(|token| match token {
        TokenTree::Ident(word) => {
            is_negated = word == "not";
            word == "test"
        }
        TokenTree::Group(group) => !is_negated && asks_for_tests(group.stream()),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the enum is another crate's and may grow")]
fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

impl Facts {
    fn name(&mut self, span: Span, path: &[String]) {
        let mut names = path.to_vec();
        if matches!(names.first().map(String::as_str), Some("self" | "super")) {
            let mut place = self.module.clone();
            while names.first().is_some_and(|name| name == "super") {
                names.remove(0);
                place.pop();
            }
            if names.first().is_some_and(|name| name == "self") {
                names.remove(0);
            }
            place.append(&mut names);
            names = place;
        }
        self.named.push(Named { line: line(span), path: names.join("::") });
    }

    fn use_tree(&mut self, tree: &UseTree, before: &mut Vec<String>) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.use_tree(&path.tree, before);
                before.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|item| self.use_tree(item, before)),
            UseTree::Name(name) => self.leaf(name.ident.span(), before, &name.ident.to_string()),
            UseTree::Rename(rename) => self.leaf(rename.ident.span(), before, &rename.ident.to_string()),
            UseTree::Glob(glob) => self.name(glob.span(), before),
        }
    }

    fn leaf(&mut self, span: Span, before: &[String], name: &str) {
        let mut path = before.to_vec();
        // `use a::{self}` is `use a`.
        if name != "self" || path.is_empty() {
            path.push(name.to_owned());
        }
        self.name(span, &path);
    }

    /// Paths and strings among the words of a macro call, which has no syntax tree.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut start = Span::call_site();
        let mut colons = 0;
        for token in tokens {
            match &token {
                TokenTree::Ident(word) if colons == 2 && !path.is_empty() => path.push(word.to_string()),
                TokenTree::Ident(word) => {
                    self.end_path(start, &mut path);
                    start = word.span();
                    path.push(word.to_string());
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Punct(_) => self.end_path(start, &mut path),
                TokenTree::Group(group) => {
                    self.end_path(start, &mut path);
                    self.tokens(group.stream());
                }
                TokenTree::Literal(literal) => {
                    self.end_path(start, &mut path);
                    if let Lit::Str(text) = Lit::new(literal.clone()) {
                        self.strings.push((line(text.span()), text.value()));
                    }
                }
            }
            colons = 0;
        }
        self.end_path(start, &mut path);
    }

    fn end_path(&mut self, start: Span, path: &mut Vec<String>) {
        if path.len() > 1 {
            self.name(start, path);
        }
        path.clear();
    }
}

impl<'ast> Visit<'ast> for Facts {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = attributes(item);
        if is_for_tests(attributes) {
            let first = attributes.first().map_or_else(|| item.span(), Spanned::span);
            self.test_lines += item.span().end().line + 1 - line(first);
            if let Item::Mod(ItemMod { ident, content: None, .. }) = item {
                self.test_modules.push(ident.to_string());
            }
            return;
        }
        if let Item::Use(item) = item {
            self.use_tree(&item.tree, &mut Vec::new());
        }
        visit::visit_item(self, item);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.name(path.span(), &names);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }

    fn visit_expr(&mut self, expression: &'ast Expr) {
        if let Expr::Lit(literal) = expression
            && let Lit::Str(text) = &literal.lit
        {
            self.strings.push((line(text.span()), text.value()));
        }
        visit::visit_expr(self, expression);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if attribute.path().is_ident("allow") {
            self.allow_lines.push(line(attribute.span()));
        }
        visit::visit_attribute(self, attribute);
    }

    fn visit_type_trait_object(&mut self, object: &'ast TypeTraitObject) {
        self.dyn_lines.push(line(object.span()));
        visit::visit_type_trait_object(self, object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(path: &str, content: &str) -> Vec<String> {
        Source::read(path, content).unwrap().named().iter().map(|named| named.path.clone()).collect()
    }

    fn has(path: &str, content: &str, wanted: &str) -> bool {
        named(path, content).iter().any(|found| found == wanted)
    }

    #[test]
    fn groups_of_imports_are_taken_apart() {
        let source = "use std::{fs::{self, File}, time::Instant as Now, io::*};";
        let found = named("agent/src/x.rs", source);
        assert_eq!(found, ["std::fs", "std::fs::File", "std::time::Instant", "std::io"]);
    }

    #[test]
    fn paths_are_found_in_code_types_and_macros() {
        let source = "fn f(_: std::fs::File) { tokio::spawn(x()); println!(\"{}\", std::env::var(\"A\")); }";
        for wanted in ["std::fs::File", "tokio::spawn", "std::env::var"] {
            assert!(has("agent/src/x.rs", source, wanted), "{wanted}");
        }
    }

    #[test]
    fn own_modules_are_named_from_the_crates_root() {
        assert!(has("agent/src/plan/retire.rs", "use super::super::ir::Split;", "crate::ir::Split"));
        assert!(has("agent/src/plan/mod.rs", "use super::ir::Split;", "crate::ir::Split"));
        assert!(has("agent/src/plan/mod.rs", "use self::retire::Retire;", "crate::plan::retire::Retire"));
    }

    #[test]
    fn items_for_tests_are_left_out() {
        let source = "#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n#[test]\nfn t() { std::env::args(); }\n";
        assert_eq!(named("agent/src/x.rs", source), [""; 0]);
        // A test helper that a feature opens too.
        assert_eq!(named("agent/src/x.rs", "#[cfg(any(test, feature = \"t\"))]\nmod m { use std::fs; }"), [""; 0]);
        assert!(has("agent/src/x.rs", "#[cfg(not(test))]\nuse std::fs;", "std::fs"));
    }

    #[test]
    fn test_modules_lead_to_their_files() {
        let files = |path: &str| Source::read(path, "//! X.\n#[cfg(test)]\nmod tests;\n").unwrap().test_files();
        assert!(files("agent/src/plan/mod.rs").contains(&PathBuf::from("agent/src/plan/tests.rs")));
        assert!(files("agent/src/x.rs").contains(&PathBuf::from("agent/src/x/tests.rs")));
    }

    #[test]
    fn a_file_without_a_header_is_found() {
        let findings = |content| Source::read("agent/src/x.rs", content).unwrap().check();
        assert_eq!(findings("//! Does it.\nfn f() {}"), []);
        assert!(findings("/// Not a header.\nfn f() {}")[0].to_string().contains("opens with `//!`"));
    }

    #[test]
    fn a_bare_allow_is_found_with_its_line() {
        let source = "//! X.\n\n#[allow(dead_code)]\nfn f() {}";
        assert_eq!(Source::read("x.rs", source).unwrap().check()[0].line, 3);
        let source = "//! X.\n#[expect(dead_code, reason = \"y\")]\nfn f() {}";
        assert_eq!(Source::read("x.rs", source).unwrap().check(), []);
    }

    #[test]
    fn tests_do_not_count_for_the_length() {
        let code = "// x\n".repeat(LENGTH - 1);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "// y\n".repeat(100));
        let long = |content: &str| Source::read("x.rs", content).unwrap().check_length();
        assert_eq!(long(&format!("//! X.\n{code}{tests}")), None);
        assert!(long(&format!("//! X.\n// z\n{code}{tests}")).is_some());
    }
}
