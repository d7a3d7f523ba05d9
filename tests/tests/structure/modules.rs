//! Which modules of a crate name which others, read from its source.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result};
use syn::visit::{self, Visit};
use syn::{Attribute, ItemMod, ItemUse, UseTree};

type Module = Vec<String>;

/// The modules of a crate, and the paths that each of them names.
#[derive(Default)]
pub struct Crate {
    named: BTreeMap<Module, Vec<Module>>,
}

impl Crate {
    /// Reads all files below a crate's `src`.
    pub fn read(src: &Path) -> Result<Self> {
        let mut of_files = Self::default();
        of_files.read_below(src, src)?;
        Ok(of_files)
    }

    fn read_below(&mut self, directory: &Path, src: &Path) -> Result<()> {
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            if path.is_dir() {
                self.read_below(&path, src)?;
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                self.add(path.strip_prefix(src)?, &std::fs::read_to_string(&path)?)?;
            }
        }
        Ok(())
    }

    /// Adds the file at this path below `src`. Tests are no part of what they test.
    pub fn add(&mut self, path: &Path, text: &str) -> Result<()> {
        let mut module: Module = path
            .with_extension("")
            .iter()
            .map(|part| part.to_string_lossy().into())
            .collect();
        if module.iter().any(|part| part == "tests") {
            return Ok(());
        }
        if module
            .last()
            .is_some_and(|last| ["lib", "main", "mod"].contains(&last.as_str()))
        {
            module.pop();
        }
        let file = syn::parse_file(text).with_context(|| format!("can't read {}", path.display()))?;
        let mut names = Names {
            module: module.clone(),
            paths: Vec::new(),
        };
        names.visit_file(&file);
        self.named.entry(module).or_default().extend(names.paths);
        Ok(())
    }

    /// The circles, each as the modules in it and why each is.
    pub fn circles(&self) -> Vec<String> {
        let mut edges = BTreeMap::<Module, BTreeMap<Module, String>>::new();
        for (module, paths) in &self.named {
            for path in paths {
                let Some(named) = (0..=path.len())
                    .rev()
                    .map(|end| &path[..end])
                    .find(|part| self.named.contains_key(*part))
                else {
                    continue;
                };
                // Seen from where they part, both are whole modules; one within the other is a part of it.
                let common = module.iter().zip(named).take_while(|(a, b)| a == b).count();
                if common < module.len() && common < named.len() {
                    let why = format!("{} names {}", module.join("::"), path.join("::"));
                    let from = edges.entry(module[..=common].to_vec()).or_default();
                    from.entry(named[..=common].to_vec()).or_insert(why);
                }
            }
        }
        let reached: BTreeMap<_, _> = edges.keys().map(|from| (from, reachable(from, &edges))).collect();
        let circle = |module: &Module| -> BTreeSet<&Module> {
            let there = reached[module].iter().copied();
            there
                .filter(|other| reached.get(other).is_some_and(|back| back.contains(module)))
                .collect()
        };
        let circles: BTreeSet<_> = edges.keys().map(circle).filter(|circle| !circle.is_empty()).collect();
        let describe = |circle: BTreeSet<&Module>| {
            let inside = circle
                .iter()
                .flat_map(|module| &edges[*module])
                .filter(|(to, _)| circle.contains(to));
            inside.map(|(_, why)| why.as_str()).collect::<Vec<_>>().join("; ")
        };
        circles.into_iter().map(describe).collect()
    }
}

/// The modules that can be reached from one, itself only by way of others.
fn reachable<'e>(from: &Module, edges: &'e BTreeMap<Module, BTreeMap<Module, String>>) -> BTreeSet<&'e Module> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<_> = edges.get(from).into_iter().flat_map(BTreeMap::keys).collect();
    while let Some(module) = next.pop() {
        if reached.insert(module) {
            next.extend(edges.get(module).into_iter().flat_map(BTreeMap::keys));
        }
    }
    reached
}

/// Collects the paths that a file names, from the crate's root.
struct Names {
    module: Module,
    paths: Vec<Module>,
}

impl Names {
    /// Keeps a path that begins with `crate`, `self` or `super`; others are those of other crates, or of modules inside.
    fn keep(&mut self, path: &[String]) {
        let mut base = match path.first().map(String::as_str) {
            Some("crate") => Vec::new(),
            Some("self" | "super") => self.module.clone(),
            _ => return,
        };
        let up = path.iter().filter(|part| *part == "super").count();
        base.truncate(base.len().saturating_sub(up));
        let down = path
            .iter()
            .filter(|part| !["crate", "self", "super"].contains(&part.as_str()));
        base.extend(down.cloned());
        self.paths.push(base);
    }

    fn keep_tree(&mut self, before: &[String], tree: &UseTree) {
        let with = |ident: &syn::Ident| [before, &[ident.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.keep_tree(&with(&path.ident), &path.tree),
            UseTree::Name(name) => self.keep(&with(&name.ident)),
            UseTree::Rename(rename) => self.keep(&with(&rename.ident)),
            UseTree::Glob(_) => self.keep(before),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.keep_tree(before, tree)),
        }
    }
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let is_test = |attribute: &Attribute| {
            attribute.path().is_ident("cfg")
                && attribute
                    .parse_args::<syn::Path>()
                    .is_ok_and(|path| path.is_ident("test"))
        };
        if !item.attrs.iter().any(is_test) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.keep_tree(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<_> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        self.keep(&parts);
        visit::visit_path(self, path);
    }
}
